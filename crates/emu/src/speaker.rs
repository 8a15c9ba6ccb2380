//! Sentences for people while packets pass. A thread prints them, so that a reader who pauses delays no packet.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Sentences that may wait for their reader. What is said beyond is left out: the account at the end has its numbers.
const WAITING: usize = 64;

/// Prints what voices say.
pub(crate) struct Speaker {
    voice: Voice,
    printer: JoinHandle<()>,
}

/// Says sentences, and waits for nobody.
#[derive(Debug, Clone)]
pub(crate) struct Voice(SyncSender<Option<String>>);

impl Speaker {
    /// One who hands each sentence to `print`, which may wait.
    pub(crate) fn start(mut print: impl FnMut(&str) + Send + 'static) -> Self {
        let (voice, said) = Voice::new();
        let printer =
            thread::spawn(move || said.iter().map_while(|said| said).for_each(|sentence| print(&sentence)));
        Self { voice, printer }
    }

    pub(crate) fn voice(&self) -> Voice {
        self.voice.clone()
    }

    /// Waits until all is printed that was said. What is said later is not.
    pub(crate) fn finish(self) {
        // If the printer has ended, there is nothing to wait for.
        let _ = self.voice.0.send(None);
        let _ = self.printer.join();
    }
}

impl Voice {
    /// And where what it says comes out: sentences, then none.
    pub(crate) fn new() -> (Self, Receiver<Option<String>>) {
        let (voice, said) = sync_channel(WAITING);
        (Self(voice), said)
    }

    /// One that nobody hears.
    pub(crate) fn unheard() -> Self {
        Self::new().0
    }

    /// Says a sentence, if there is room for it.
    pub(crate) fn say(&self, sentence: &str) {
        let _ = self.0.try_send(Some(sentence.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_reader_who_pauses_holds_up_nobody_and_gets_the_first_sentences_before_the_end() {
        let (go, told_to) = channel::<()>();
        let (prints, printed) = channel();
        let speaker = Speaker::start(move |sentence| {
            // Nobody is left who could tell when the reader goes on.
            let _ = told_to.recv();
            prints.send(sentence.to_owned()).unwrap();
        });
        let voice = speaker.voice();
        for number in 0..2 * WAITING {
            voice.say(&number.to_string());
        }
        assert_eq!(printed.try_iter().count(), 0, "nothing is read yet");
        drop(go);
        // A voice that is still there keeps nobody from the end.
        speaker.finish();
        voice.say("too late");
        let printed: Vec<_> = printed.iter().collect();
        // One may be with the printer.
        assert!((WAITING..=WAITING + 1).contains(&printed.len()), "{}", printed.len());
        assert!(printed.iter().enumerate().all(|(number, sentence)| *sentence == number.to_string()));
    }
}
