use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rdt_datagram::FileOffset;

use super::*;

/// Counts what it is asked for.
#[derive(Default)]
struct Counted {
    renewed: Mutex<u32>,
    joined: Mutex<u32>,
    no_new_ones: bool,
    /// Error number of a wish for a large page.
    no_large_ones: Option<i32>,
    closed: AtomicBool,
    retired: Mutex<usize>,
}

impl Pages for Counted {
    fn renew(&self) -> bool {
        *self.renewed.lock().expect("nobody panicked") += 1;
        !self.no_new_ones
    }

    fn join(&self) -> io::Result<()> {
        *self.joined.lock().expect("nobody panicked") += 1;
        self.no_large_ones.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn retire(self: Arc<Self>, frames: Vec<Arc<Frame>>) {
        *self.retired.lock().expect("nobody panicked") = frames.len();
    }
}

fn ring(frames: u64, pages: Counted) -> ZerocopyPool<Counted> {
    let memory = || vec![0; Frame::SIZE].leak();
    let frame = |offset| Arc::new(Frame::mapped_at(FileOffset { file: 1, offset }, memory()));
    ZerocopyPool::new(Arc::new(pages), (0..frames).map(frame).collect())
}

fn number(frame: &Frame) -> u64 {
    frame.file_offset().expect("it lies in the ring").offset
}

/// Takes all that there are; gives them by their numbers.
fn take_all(ring: &mut ZerocopyPool<Counted>) -> Vec<Arc<Frame>> {
    std::iter::from_fn(|| ring.take()).collect()
}

fn numbers(frames: &[Arc<Frame>]) -> Vec<u64> {
    frames.iter().map(|frame| number(frame)).collect()
}

fn give_all(ring: &mut ZerocopyPool<Counted>, frames: Vec<Arc<Frame>>, reuse: Reuse) {
    for frame in frames {
        ring.give_back(frame, reuse);
    }
}

/// Lends so many frames, each of which comes back at once.
fn lend_in_turn(ring: &mut ZerocopyPool<Counted>, frames: u32) {
    for _ in 0..frames {
        let frame = ring.take().expect("frames come back");
        ring.give_back(frame, Reuse::Acknowledged);
    }
}

/// How often pages were to be renewed, and to be joined.
fn asked(ring: &ZerocopyPool<Counted>) -> (u32, u32) {
    (
        *ring.pages.renewed.lock().expect("nobody panicked"),
        *ring.pages.joined.lock().expect("nobody panicked"),
    )
}

#[test]
fn frames_are_lent_in_turn_and_never_all_of_them() {
    let mut ring = ring(8, Counted::default());
    let lent = take_all(&mut ring);
    assert_eq!(numbers(&lent), [0, 1, 2, 3, 4, 5], "three quarters");
    assert!(ring.is_exhausted());
    give_all(&mut ring, lent, Reuse::Acknowledged);
    assert!(!ring.is_exhausted());
    let again = take_all(&mut ring);
    assert_eq!(
        numbers(&again),
        [6, 7, 0, 1, 2, 3],
        "those that came back first, after those that were not lent"
    );
}

#[test]
fn a_frame_that_nobody_read_is_the_next_one() {
    let mut ring = ring(8, Counted::default());
    let frame = ring.take().unwrap();
    ring.give_back(frame, Reuse::NeverSent);
    assert_eq!(ring.take().map(|frame| number(&frame)), Some(0));
}

#[test]
fn a_frame_that_a_batch_holds_waits() {
    let mut ring = ring(2, Counted::default());
    let frame = ring.take().unwrap();
    let batch = Arc::clone(&frame);
    ring.give_back(frame, Reuse::NeverSent);
    let frame = ring.take().unwrap();
    assert_eq!(number(&frame), 1);
    ring.give_back(frame, Reuse::NeverSent);
    drop(batch);
    assert_eq!(ring.take().map(|frame| number(&frame)), Some(1));
}

#[test]
fn pages_of_which_a_copy_may_be_under_way_are_renewed_when_nobody_holds_any() {
    let mut ring = ring(4, Counted::default());
    ring.most = 4;
    let mut lent = take_all(&mut ring);
    let held = lent.pop().expect("four were taken");
    give_all(&mut ring, lent, Reuse::MaybeReferenced);
    assert!(ring.take().is_none());
    let batch = Arc::clone(&held);
    ring.give_back(held, Reuse::MaybeReferenced);
    assert!(ring.take().is_none(), "a batch that has not left lies there");
    assert_eq!(asked(&ring), (0, 0));
    drop(batch);
    assert!(ring.take().is_some());
    assert_eq!((asked(&ring), ring.free.len()), ((1, 0), 3));
}

#[test]
fn worn_frames_are_given_up_where_pages_cannot_be_renewed() {
    let mut ring = ring(2, Counted { no_new_ones: true, ..Counted::default() });
    ring.most = 2;
    let lent = take_all(&mut ring);
    give_all(&mut ring, lent, Reuse::MaybeReferenced);
    assert!(ring.take().is_none());
    assert!(ring.pages.is_closed());
}

#[test]
fn pages_become_one_large_page_in_calm_and_small_ones_after_a_loss() {
    let mut ring = ring(4, Counted::default());
    lend_in_turn(&mut ring, CALM - 1);
    let worn = ring.take().unwrap();
    ring.give_back(worn, Reuse::MaybeReferenced);
    lend_in_turn(&mut ring, CALM - 1);
    assert_eq!(asked(&ring), (0, 0), "the count began again");
    let held = ring.take().unwrap();
    lend_in_turn(&mut ring, 1);
    assert!(ring.take().is_none(), "until nobody holds one");
    ring.give_back(held, Reuse::Acknowledged);
    lend_in_turn(&mut ring, 1);
    assert_eq!((asked(&ring), ring.grain), ((1, 1), Grain::Large));
    // A part of the large page cannot be given up.
    let lent = take_all(&mut ring);
    give_all(&mut ring, lent, Reuse::MaybeReferenced);
    let held = ring.take().unwrap();
    assert!(ring.take().is_none());
    ring.give_back(held, Reuse::MaybeReferenced);
    lend_in_turn(&mut ring, 1);
    assert_eq!((asked(&ring), ring.grain), ((2, 1), Grain::Small { calm_for: 1 }));
}

#[test]
fn a_large_page_is_asked_for_again_unless_there_will_never_be_one() {
    // ENOMEM, EINVAL.
    for (number, asked_for) in [(12, 3), (22, 1)] {
        let mut ring = ring(4, Counted { no_large_ones: Some(number), ..Counted::default() });
        lend_in_turn(&mut ring, 3 * CALM + 1);
        assert_eq!(asked(&ring).1, asked_for, "error {number}");
    }
    let mut ring = ring(4, Counted { no_new_ones: true, ..Counted::default() });
    lend_in_turn(&mut ring, 3 * CALM);
    assert_eq!((asked(&ring), ring.grain), ((1, 0), Grain::SmallOnly), "nor if there are no new ones");
}

#[test]
fn the_memory_is_given_back_with_all_frames() {
    let mut ring = ring(4, Counted::default());
    let lent = take_all(&mut ring);
    give_all(&mut ring, lent, Reuse::MaybeReferenced);
    let pages = Arc::clone(&ring.pages);
    drop(ring);
    assert_eq!(*pages.retired.lock().expect("nobody panicked"), 4);
}

#[cfg(linux_api)]
#[test]
fn datagrams_lent_to_the_kernel_keep_their_bytes_when_the_pages_are_renewed() {
    let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    let mut sent = 0;
    let mut send_from = |file: &File, ring: &mut ZerocopyPool<File>, reuse| {
        sent += 1;
        let mut frame = ring.take().unwrap();
        Arc::get_mut(&mut frame).unwrap().bytes_mut()[100..5100].fill(sent);
        let offset = frame.file_offset().unwrap().offset + 100;
        assert_eq!(send(&from, file, offset, 5000).unwrap(), 5000);
        ring.give_back(frame, reuse);
    };
    let Ok((file, mut ring)) = open() else {
        eprintln!("this kernel cannot send from a file: nothing to test");
        return;
    };
    // Unread when their pages go: four of small pages, three of a large one where the kernel has it, one whose ring
    // another socket uses next.
    (0..4).for_each(|_| send_from(&file, &mut ring, Reuse::MaybeReferenced));
    ring.enlarge();
    if ring.grain != Grain::Large {
        eprintln!("no large page here: small ones are tested again");
    }
    (0..3).for_each(|_| send_from(&file, &mut ring, Reuse::MaybeReferenced));
    drop(ring);
    let (file, mut ring) = open().unwrap();
    send_from(&file, &mut ring, Reuse::MaybeReferenced);
    let mut datagram = [0; 6000];
    for byte in 1..=8 {
        assert_eq!(to.recv(&mut datagram).unwrap(), 5000);
        assert!(datagram[..5000].iter().all(|b| *b == byte), "of datagram {byte}");
    }
}
