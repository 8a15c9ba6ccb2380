//! What a [`crate::Waiter`] asks the system for: one look at a socket and at wake-ups from other threads, for a
//! given time or none. Linux has it in one call; elsewhere the `polling` crate has it in several.

#[cfg(any(test, not(target_os = "linux")))]
mod portable;
#[cfg(target_os = "linux")]
mod ppoll;

#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Poller, Waker};
#[cfg(target_os = "linux")]
pub(crate) use ppoll::{Poller, Waker};

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
    #[cfg(target_os = "linux")]
    tests!(ppoll);
}
