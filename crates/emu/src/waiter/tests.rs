//! Waiting on real sockets.

use std::net::UdpSocket;
use std::thread;

use super::*;

/// Returns a waiter on two sockets, its waker, and a handle of the second socket.
fn waiter() -> (Waiter<Descriptors>, Waker, UdpSocket) {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let fds = [near.into(), OwnedFd::from(far.try_clone().unwrap())].map(Arc::new);
    let descriptors = Descriptors::new(&fds).unwrap();
    let stop = descriptors.waker();
    (Waiter::new(Waiting::Sleep, descriptors), stop, far)
}

#[test]
fn wait_sleeps_until_its_deadline() {
    let (mut waiter, _stop, _socket) = waiter();
    // The first wait polls before it sleeps, the second one does not poll.
    for _ in 0..2 {
        let deadline = clock::now() + Duration::from_millis(20);
        let mut waits = 0;
        while clock::now() + SPIN < deadline {
            assert!(waiter.wait(Some(deadline)).unwrap());
            waits += 1;
        }
        assert!(waits < 100, "it sleeps: {waits} waits for one deadline");
    }
}

#[test]
fn unread_packet_ends_every_wait() {
    let (mut waiter, _stop, socket) = waiter();
    let address = socket.local_addr().unwrap();
    let other = thread::spawn(move || UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address));
    assert!(waiter.wait(None).unwrap());
    assert_eq!(other.join().unwrap().unwrap(), 1);
    assert!(waiter.wait(None).unwrap(), "it is still there");
}

#[test]
fn stop_ends_every_wait() {
    let (mut waiter, stop, _socket) = waiter();
    let other = thread::spawn(move || stop.wake());
    while waiter.wait(None).unwrap() {}
    other.join().unwrap();
    assert!(!waiter.wait(Some(clock::now())).unwrap());
    assert!(!waiter.wait(Some(clock::now() + Duration::from_secs(3600))).unwrap());
}
