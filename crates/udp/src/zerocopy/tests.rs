use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rdt_datagram::FileOffset;

use super::*;

#[derive(Default)]
struct Counted {
    renewed: Mutex<u32>,
    joined: Mutex<u32>,
    no_new_ones: bool,
    /// Error number with which joining fails; `None` to succeed.
    no_large_ones: Option<i32>,
    closed: AtomicBool,
    retired: Mutex<usize>,
}

impl Pages for Counted {
    fn renew(&self) -> bool {
        *self.renewed.lock().expect("no panic while locked") += 1;
        !self.no_new_ones
    }

    fn join(&self) -> io::Result<()> {
        *self.joined.lock().expect("no panic while locked") += 1;
        self.no_large_ones.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn retire(self: Arc<Self>, frames: Vec<Arc<Frame>>) {
        *self.retired.lock().expect("no panic while locked") = frames.len();
    }
}

fn pool(frames: u64, pages: Counted) -> ZerocopyPool<Counted> {
    let memory = || vec![0; Frame::SIZE].leak();
    let frame = |offset| Arc::new(Frame::mapped_at(FileOffset { file: 1, offset }, memory()));
    ZerocopyPool::new(Arc::new(pages), (0..frames).map(frame).collect())
}

fn number(frame: &Frame) -> u64 {
    frame.file_offset().expect("it lies in the pool").offset
}

fn take_all(pool: &mut ZerocopyPool<Counted>) -> Vec<Arc<Frame>> {
    std::iter::from_fn(|| pool.take()).collect()
}

fn numbers(frames: &[Arc<Frame>]) -> Vec<u64> {
    frames.iter().map(|frame| number(frame)).collect()
}

fn give_all(pool: &mut ZerocopyPool<Counted>, frames: Vec<Arc<Frame>>, reuse: Reuse) {
    for frame in frames {
        pool.give_back(frame, reuse);
    }
}

fn lend_in_turn(pool: &mut ZerocopyPool<Counted>, frames: u32) {
    for _ in 0..frames {
        let frame = pool.take().expect("frames come back");
        pool.give_back(frame, Reuse::Acknowledged);
    }
}

/// Returns the numbers of calls of `renew` and `join`.
fn asked(pool: &ZerocopyPool<Counted>) -> (u32, u32) {
    (
        *pool.pages.renewed.lock().expect("no panic while locked"),
        *pool.pages.joined.lock().expect("no panic while locked"),
    )
}

#[test]
fn senders_hold_three_quarters_at_most() {
    let mut pool = pool(8, Counted::default());
    let taken = take_all(&mut pool);
    assert_eq!(numbers(&taken), [0, 1, 2, 3, 4, 5], "three quarters");
    assert!(pool.is_exhausted());
    give_all(&mut pool, taken, Reuse::Acknowledged);
    assert!(!pool.is_exhausted());
    let again = take_all(&mut pool);
    assert_eq!(
        numbers(&again),
        [6, 7, 0, 1, 2, 3],
        "those that came back first, after those that were never taken"
    );
}

#[test]
fn never_referenced_frame_is_next() {
    let mut pool = pool(8, Counted::default());
    let frame = pool.take().unwrap();
    pool.give_back(frame, Reuse::NeverSent);
    assert_eq!(pool.take().map(|frame| number(&frame)), Some(0));
}

#[test]
fn frame_held_by_batch_is_skipped() {
    let mut pool = pool(2, Counted::default());
    let frame = pool.take().unwrap();
    let batch = Arc::clone(&frame);
    pool.give_back(frame, Reuse::NeverSent);
    let frame = pool.take().unwrap();
    assert_eq!(number(&frame), 1);
    pool.give_back(frame, Reuse::NeverSent);
    drop(batch);
    assert_eq!(pool.take().map(|frame| number(&frame)), Some(1));
}

#[test]
fn set_aside_pages_are_replaced_without_holders() {
    let mut pool = pool(4, Counted::default());
    pool.max_held = 4;
    let mut taken = take_all(&mut pool);
    let held = taken.pop().expect("four were taken");
    give_all(&mut pool, taken, Reuse::MaybeReferenced);
    assert!(pool.take().is_none());
    let batch = Arc::clone(&held);
    pool.give_back(held, Reuse::MaybeReferenced);
    assert!(pool.take().is_none(), "a batch that has not left lies there");
    assert_eq!(asked(&pool), (0, 0));
    drop(batch);
    assert!(pool.take().is_some());
    assert_eq!((asked(&pool), pool.free.len()), ((1, 0), 3));
}

#[test]
fn pool_closes_when_pages_cannot_be_replaced() {
    let mut pool = pool(2, Counted { no_new_ones: true, ..Counted::default() });
    pool.max_held = 2;
    let taken = take_all(&mut pool);
    give_all(&mut pool, taken, Reuse::MaybeReferenced);
    assert!(pool.take().is_none());
    assert!(pool.pages.is_closed());
}

#[test]
fn pages_join_without_loss_and_split_after() {
    let mut pool = pool(4, Counted::default());
    lend_in_turn(&mut pool, FRAMES_BEFORE_JOIN - 1);
    let worn = pool.take().unwrap();
    pool.give_back(worn, Reuse::MaybeReferenced);
    lend_in_turn(&mut pool, FRAMES_BEFORE_JOIN - 1);
    assert_eq!(asked(&pool), (0, 0), "the count began again");
    let held = pool.take().unwrap();
    lend_in_turn(&mut pool, 1);
    assert!(pool.take().is_none(), "until no sender holds one");
    pool.give_back(held, Reuse::Acknowledged);
    lend_in_turn(&mut pool, 1);
    assert_eq!((asked(&pool), pool.page_size), ((1, 1), PageSize::Large));
    // A part of a large page cannot be replaced.
    let taken = take_all(&mut pool);
    give_all(&mut pool, taken, Reuse::MaybeReferenced);
    let held = pool.take().unwrap();
    assert!(pool.take().is_none());
    pool.give_back(held, Reuse::MaybeReferenced);
    lend_in_turn(&mut pool, 1);
    assert_eq!((asked(&pool), pool.page_size), ((2, 1), PageSize::Small { sent_frames: 1 }));
}

#[test]
fn failed_join_is_retried_unless_lasting() {
    // ENOMEM is transient, EINVAL lasting.
    for (number, asked_for) in [(12, 3), (22, 1)] {
        let mut pool = pool(4, Counted { no_large_ones: Some(number), ..Counted::default() });
        lend_in_turn(&mut pool, 3 * FRAMES_BEFORE_JOIN + 1);
        assert_eq!(asked(&pool).1, asked_for, "error {number}");
    }
    let mut pool = pool(4, Counted { no_new_ones: true, ..Counted::default() });
    lend_in_turn(&mut pool, 3 * FRAMES_BEFORE_JOIN);
    assert_eq!((asked(&pool), pool.page_size), ((1, 0), PageSize::SmallOnly), "nor if there are no new ones");
}

#[test]
fn dropped_pool_retires_all_frames() {
    let mut pool = pool(4, Counted::default());
    let taken = take_all(&mut pool);
    give_all(&mut pool, taken, Reuse::MaybeReferenced);
    let pages = Arc::clone(&pool.pages);
    drop(pool);
    assert_eq!(*pages.retired.lock().expect("no panic while locked"), 4);
}

#[cfg(linux_api)]
#[test]
fn queued_datagrams_survive_page_replacement() {
    let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    let mut sent = 0;
    let mut send_from = |file: &File, pool: &mut ZerocopyPool<File>, reuse| {
        sent += 1;
        let mut frame = pool.take().unwrap();
        Arc::get_mut(&mut frame).unwrap().bytes_mut()[100..5100].fill(sent);
        let offset = frame.file_offset().unwrap().offset + 100;
        assert_eq!(send(&from, file, offset, 5000).unwrap(), 5000);
        pool.give_back(frame, reuse);
    };
    let Ok((file, mut pool)) = open() else {
        eprintln!("this kernel cannot send from a file: nothing to test");
        return;
    };
    // Datagrams that are unread when their pages are replaced: four of small pages, three of a
    // large page (if the kernel has it), one whose file the next pool uses.
    (0..4).for_each(|_| send_from(&file, &mut pool, Reuse::MaybeReferenced));
    pool.enlarge();
    if pool.page_size != PageSize::Large {
        eprintln!("no large page here: small ones are tested again");
    }
    (0..3).for_each(|_| send_from(&file, &mut pool, Reuse::MaybeReferenced));
    drop(pool);
    let (file, mut pool) = open().unwrap();
    send_from(&file, &mut pool, Reuse::MaybeReferenced);
    let mut datagram = [0; 6000];
    for byte in 1..=8 {
        assert_eq!(to.recv(&mut datagram).unwrap(), 5000);
        assert!(datagram[..5000].iter().all(|b| *b == byte), "of datagram {byte}");
    }
}
