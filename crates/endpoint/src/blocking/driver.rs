//! Thread that reads arriving datagrams and handles the timers of an endpoint.

use std::io;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use rdt_driver::{SocketError, Waiter};

#[cfg(feature = "emulator")]
use super::park;
use crate::core::{Core, Shared};
use crate::error::Stopped;
use crate::io::Io;

/// Time in which a thread that input has woken should write or read again, which sends the output:
/// ACKs then travel in its data. Much longer than a wake-up, much shorter than a delayed ACK.
const OUTPUT_GRACE: Duration = Duration::from_micros(250);

/// Way in which the thread waits.
pub(super) enum Wait {
    Socket(Box<Waiter>),
    /// For packets of an emulated network, which are due at known times.
    #[cfg(feature = "emulator")]
    Park,
}

impl Wait {
    pub(super) fn on(io: &Io) -> io::Result<Self> {
        match io.socket() {
            Some(socket) => Ok(Self::Socket(Box::new(Waiter::new(socket, Duration::ZERO)?))),
            #[cfg(feature = "emulator")]
            None => Ok(Self::Park),
            #[cfg(not(feature = "emulator"))]
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns a waker that ends a wait of the calling thread.
    fn waker(&self) -> Waker {
        match self {
            Self::Socket(waiter) => Arc::new(EndWait(waiter.waker())).into(),
            #[cfg(feature = "emulator")]
            Self::Park => park::waker(),
        }
    }

    fn wait(&mut self, deadline: Option<Instant>, writable: bool) -> io::Result<()> {
        match self {
            Self::Socket(waiter) => waiter.wait(deadline, writable),
            #[cfg(feature = "emulator")]
            Self::Park => {
                let now = rdt_driver::clock::now();
                match deadline {
                    Some(deadline) => thread::park_timeout(deadline.saturating_duration_since(now)),
                    None => thread::park(),
                }
                Ok(())
            }
        }
    }
}

/// Waker of [`Waiter`] as that of a task.
struct EndWait(rdt_driver::Waker);

impl Wake for EndWait {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

/// Starts the thread.
pub(super) fn spawn(shared: Arc<Shared>, mut wait: Wait) -> io::Result<()> {
    let run = move || {
        let _abandon = Abandon(&shared);
        run(&shared, &mut wait);
    };
    thread::Builder::new().name("rdt-endpoint".to_owned()).spawn(run).map(drop)
}

/// Ends the endpoint with its thread, also after a panic: otherwise calls would wait for ever.
struct Abandon<'a>(&'a Shared);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.with(Core::abandon);
    }
}

fn run(shared: &Shared, wait: &mut Wait) {
    let waker = wait.waker();
    let cx = Context::from_waker(&waker);
    loop {
        let (more, deadline, blocked) = shared.with(|core, now| {
            core.set_driver(&cx);
            let mut more = core.is_output_pending() && core.output(now).more;
            core.io.set_readable();
            more |= core.input(now).more;
            if !core.is_output_pending() {
                more |= core.output(now).more;
            }
            let grace = core.is_output_pending().then(|| now + OUTPUT_GRACE);
            (more, core.arm(grace), core.is_blocked())
        });
        if shared.with(|core, _| core.is_over()) {
            return;
        }
        if !more && let Err(error) = wait.wait(deadline, blocked) {
            let error = Arc::new(SocketError::Receive(error));
            shared.with(|core, _| core.stop(Stopped::Socket(error)));
        }
    }
}
