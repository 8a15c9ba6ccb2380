//! Readiness of one socket ([`Poller`]) or many ([`PollSet`]), and wake-ups from other threads. On
//! Linux by `ppoll` or `epoll`, elsewhere by the `polling` crate.

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

    /// Tests of a poller. A missed event makes them wait for ever.
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
                fn empty_socket_is_writable_only() {
                    let (mut poller, _socket) = poller();
                    assert!(!poller.poll(Some(Duration::ZERO), false).unwrap());
                    assert!(poller.poll(None, true).unwrap());
                    assert!(!poller.poll(Some(Duration::ZERO), false).unwrap(), "no longer asked for");
                }

                #[test]
                fn datagram_ends_waits_until_read() {
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
                fn several_wake_ups_end_one_wait() {
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

    macro_rules! many_tests {
        ($name:ident, $way:ident) => {
            mod $name {
                use super::super::$way::PollSet;
                use super::*;

                /// Creates three sockets, whose keys are 0 to 2.
                fn watch() -> (PollSet, Vec<Arc<UdpSocket>>) {
                    let mut watch = PollSet::new(64).unwrap();
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

                fn ready(watch: &mut PollSet) -> Vec<usize> {
                    let mut ready = Vec::new();
                    assert!(!watch.poll(Some(Duration::ZERO), &mut ready).unwrap());
                    ready.sort_unstable();
                    ready
                }

                #[test]
                fn readable_sockets_are_reported_until_read() {
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
                fn wake_up_reports_no_socket() {
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
