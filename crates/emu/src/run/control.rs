//! Messages between `run` (the outer process) and `enter` and `init` (inside the namespaces), over
//! a socket pair.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::FdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Longest message, bytes; a longer error text is truncated.
const MAX_MESSAGE: usize = 4096;
const MAX_FDS: usize = 2;

/// Packets that the kernel dropped before the relay read them, at the near and the far device.
pub(crate) type Overflow = [u64; 2];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// From inside: the process entered a user namespace, in which no ID is mapped yet.
    Unmapped,
    /// From outside: the IDs of the user namespace are mapped; false if that was refused.
    Mapped(bool),
    /// From inside: the devices are ready. Their descriptors are attached to the message.
    Ready,
    /// From outside: the relay runs, start the command.
    Go,
    /// From outside: a signal for the command.
    Signal(u8),
    /// From inside: the command was stopped; true if it was in the foreground of the terminal.
    Stopped(bool),
    /// From outside: resume the command; true puts it into the foreground of the terminal.
    Continue(bool),
    /// From inside: packets lost so far.
    Lost(Overflow),
    Failed(u8, String),
    /// From inside: the command ended with this exit code, after these packets were lost.
    Ended(u8, Overflow),
}

#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Control {
    /// Creates both ends. Started programs inherit the second one until [`Control::keep`].
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (outside, inside) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::empty(), None)?;
        let outside = Self(outside);
        outside.keep()?;
        Ok((outside, Self(inside)))
    }

    /// Opens the socket that the outer process passed as descriptor `number`.
    pub(crate) fn inherited(number: RawFd) -> io::Result<Self> {
        // SAFETY: the outer process opened it for this one, and no other code here uses the number.
        // If a user passes a number that is not open, `fcntl` rejects it, and it is not closed.
        #[expect(unsafe_code, reason = "a descriptor from the command line has no owner yet")]
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        if let Err(error) = rustix::io::fcntl_getfd(&fd) {
            std::mem::forget(fd);
            return Err(error.into());
        }
        Ok(Self(fd))
    }

    /// Sets close-on-exec, so that programs started from now on do not inherit the socket.
    pub(crate) fn keep(&self) -> io::Result<()> {
        Ok(rustix::io::fcntl_setfd(&self.0, FdFlags::CLOEXEC)?)
    }

    pub(crate) fn send(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = message.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for a message; `None` if the other process has closed its end.
    pub(crate) fn receive(&self) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
        let mut bytes = [0; MAX_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            &self.0,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        );
        let len = match received {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        let fds = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fds = fds.flatten().collect();
        Ok(Message::decode(&bytes[..len]).map(|message| (message, fds)))
    }
}

impl AsRawFd for Control {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Message {
    /// Encodes a message: a letter and a number, then a text or two counters.
    fn encode(&self) -> Vec<u8> {
        let (letter, number, text) = match self {
            Self::Unmapped => (b'u', 0, ""),
            Self::Mapped(all) => (b'm', u8::from(*all), ""),
            Self::Ready => (b'r', 0, ""),
            Self::Go => (b'g', 0, ""),
            Self::Signal(signal) => (b's', *signal, ""),
            Self::Failed(code, sentence) => (b'f', *code, sentence.as_str()),
            Self::Stopped(had_terminal) => (b't', u8::from(*had_terminal), ""),
            Self::Continue(terminal) => (b'c', u8::from(*terminal), ""),
            Self::Lost(_) => (b'l', 0, ""),
            Self::Ended(code, _) => (b'e', *code, ""),
        };
        let mut bytes = vec![letter, number];
        bytes.extend(text.bytes().take(MAX_MESSAGE - 2));
        if let Self::Lost(counts) | Self::Ended(_, counts) = self {
            bytes.extend(counts.iter().flat_map(|count| count.to_ne_bytes()));
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let [letter, number, text @ ..] = bytes else { return None };
        match letter {
            b'u' => Some(Self::Unmapped),
            b'm' => Some(Self::Mapped(*number != 0)),
            b'r' => Some(Self::Ready),
            b'g' => Some(Self::Go),
            b's' => Some(Self::Signal(*number)),
            b'f' => Some(Self::Failed(*number, String::from_utf8_lossy(text).into_owned())),
            b't' => Some(Self::Stopped(*number != 0)),
            b'c' => Some(Self::Continue(*number != 0)),
            b'l' => Some(Self::Lost(counts(text)?)),
            b'e' => Some(Self::Ended(*number, counts(text)?)),
            _ => None,
        }
    }
}

fn counts(bytes: &[u8]) -> Option<Overflow> {
    let (near, far) = bytes.split_at_checked(size_of::<u64>())?;
    Some([u64::from_ne_bytes(near.try_into().ok()?), u64::from_ne_bytes(far.try_into().ok()?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_then_end_of_stream() {
        let (outside, inside) = Control::pair().unwrap();
        let messages = [
            Message::Unmapped,
            Message::Mapped(true),
            Message::Ready,
            Message::Go,
            Message::Signal(15),
            Message::Failed(69, "no: ü".into()),
            Message::Stopped(true),
            Message::Continue(false),
            Message::Lost([0, 7]),
            Message::Ended(255, [1, u64::MAX]),
        ];
        for message in &messages {
            inside.send(message, &[]).unwrap();
        }
        drop(inside);
        for message in messages {
            assert_eq!(outside.receive().unwrap().unwrap().0, message);
        }
        assert!(outside.receive().unwrap().is_none());
    }

    #[test]
    fn message_carries_descriptors() {
        let (outside, inside) = Control::pair().unwrap();
        let (one, two) = Control::pair().unwrap();
        inside.send(&Message::Ready, &[one.as_fd(), two.as_fd()]).unwrap();
        let (_, fds) = outside.receive().unwrap().unwrap();
        let [theirs, _] = <[OwnedFd; 2]>::try_from(fds).unwrap();
        Control(theirs).send(&Message::Go, &[]).unwrap();
        assert_eq!(two.receive().unwrap().unwrap().0, Message::Go);
    }

    #[test]
    fn long_message_is_truncated() {
        let (outside, inside) = Control::pair().unwrap();
        inside.send(&Message::Failed(1, "x".repeat(2 * MAX_MESSAGE)), &[]).unwrap();
        let Some((Message::Failed(1, text), _)) = outside.receive().unwrap() else {
            panic!("another message")
        };
        assert_eq!(text.len(), MAX_MESSAGE - 2);
    }
}
