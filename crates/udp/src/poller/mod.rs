//! What a [`crate::Waiter`] asks the system for: one look at a socket and at wake-ups from other threads, for a
//! given time or none; and what [`crate::Many`] asks for: the same for many sockets. Linux has it in one call;
//! elsewhere the `polling` crate has it in several.

#[cfg(linux_api)]
mod epoll;
#[cfg(any(test, not(linux_api)))]
mod portable;
#[cfg(linux_api)]
mod ppoll;

#[cfg(linux_api)]
pub use epoll::PollSet;
#[cfg(not(linux_api))]
pub(crate) use portable::Poller;
#[cfg(not(linux_api))]
pub use portable::{PollSet, Waker};
#[cfg(linux_api)]
pub(crate) use ppoll::Poller;
#[cfg(linux_api)]
pub use ppoll::Waker;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    /// The same tests for each way to poll: none of them ends if what it waits for goes unseen.
    macro_rules! tests {
        ($way:ident) => {
            mod $way {
                use super::super::$way::Poller;
                use super::*;

                fn poller() -> (Poller, Arc<UdpSocket>) {
                    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
                    (Poller::new(Arc::clone(&socket)).unwrap(), socket)
                }

                #[test]
                fn an_empty_socket_is_writable_and_not_readable() {
                    let (mut poller, _socket) = poller();
                    assert!(!poller.poll(Some(Duration::ZERO), false).unwrap());
                    assert!(poller.poll(None, true).unwrap());
                    assert!(!poller.poll(Some(Duration::ZERO), false).unwrap(), "no longer asked for");
                }

                #[test]
                fn a_datagram_ends_every_wait_until_it_is_read() {
                    let (mut poller, socket) = poller();
                    let address = socket.local_addr().unwrap();
                    let sender = thread::spawn(move || {
                        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address).unwrap()
                    });
                    assert!(poller.poll(None, false).unwrap());
                    assert!(poller.poll(None, false).unwrap());
                    socket.recv(&mut [0; 1]).unwrap();
                    assert!(!poller.poll(Some(Duration::ZERO), false).unwrap());
                    assert_eq!(sender.join().unwrap(), 1);
                }

                #[test]
                fn wake_ups_end_one_wait_however_many_they_were() {
                    let (mut poller, _socket) = poller();
                    let waker = poller.waker();
                    waker.wake();
                    waker.wake();
                    assert!(poller.poll(None, false).unwrap());
                    assert!(!poller.poll(Some(Duration::from_millis(1)), false).unwrap());
                    let other = thread::spawn(move || waker.wake());
                    assert!(poller.poll(None, false).unwrap());
                    other.join().unwrap();
                }
            }
        };
    }

    tests!(portable);
    #[cfg(linux_api)]
    tests!(ppoll);

    /// The same for each way to poll many.
    macro_rules! many_tests {
        ($name:ident, $way:ident) => {
            mod $name {
                use super::super::$way::PollSet;
                use super::*;

                /// Three sockets, whose keys are 0 to 2.
                fn watch() -> (PollSet, Vec<Arc<UdpSocket>>) {
                    let mut watch = PollSet::new().unwrap();
                    let sockets: Vec<_> =
                        (0..3).map(|_| Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap())).collect();
                    for (key, socket) in sockets.iter().enumerate() {
                        watch.add(key, Arc::clone(socket)).unwrap();
                    }
                    (watch, sockets)
                }

                fn send_to(socket: &UdpSocket) {
                    let address = socket.local_addr().unwrap();
                    assert_eq!(UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address).unwrap(), 1);
                }

                /// Who is ready at once.
                fn ready(watch: &mut PollSet) -> Vec<usize> {
                    let mut ready = Vec::new();
                    assert!(!watch.poll(Some(Duration::ZERO), &mut ready).unwrap());
                    ready.sort_unstable();
                    ready
                }

                #[test]
                fn those_are_told_that_have_a_datagram_until_it_is_read() {
                    let (mut watch, sockets) = watch();
                    assert_eq!(ready(&mut watch), []);
                    send_to(&sockets[2]);
                    let mut told = Vec::new();
                    while told.is_empty() {
                        assert!(!watch.poll(None, &mut told).unwrap());
                    }
                    assert_eq!(told, [2]);
                    send_to(&sockets[0]);
                    assert_eq!(ready(&mut watch), [0, 2]);
                    assert_eq!(ready(&mut watch), [0, 2]);
                    sockets[2].recv(&mut [0; 1]).unwrap();
                    assert_eq!(ready(&mut watch), [0]);
                    watch.remove(0).unwrap();
                    assert_eq!(ready(&mut watch), []);
                }

                #[test]
                fn those_are_told_that_have_room_while_that_is_wanted() {
                    let (mut watch, _sockets) = watch();
                    watch.set_write_interest(1, true).unwrap();
                    assert_eq!(ready(&mut watch), [1]);
                    assert_eq!(ready(&mut watch), [1]);
                    watch.set_write_interest(1, false).unwrap();
                    assert_eq!(ready(&mut watch), []);
                }

                #[test]
                fn a_wake_up_ends_one_wait_and_names_nobody() {
                    let (mut watch, _sockets) = watch();
                    let waker = watch.waker();
                    let other = thread::spawn(move || waker.wake());
                    let mut told = Vec::new();
                    assert!(watch.poll(None, &mut told).unwrap());
                    other.join().unwrap();
                    assert_eq!(told, []);
                    assert_eq!(ready(&mut watch), []);
                }
            }
        };
    }

    many_tests!(portable_many, portable);
    #[cfg(linux_api)]
    many_tests!(epoll_many, epoll);
}
