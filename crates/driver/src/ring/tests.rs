use std::cell::Cell;

use super::*;

/// Counts what it is asked for.
#[derive(Default)]
struct Counted {
    renewed: Cell<u32>,
    joined: Cell<u32>,
    no_new_ones: bool,
    /// Error number of a wish for a large page.
    no_large_ones: Option<i32>,
}

impl Pages for Counted {
    fn renew(&self) -> bool {
        self.renewed.set(self.renewed.get() + 1);
        !self.no_new_ones
    }

    fn join(&self) -> io::Result<()> {
        self.joined.set(self.joined.get() + 1);
        self.no_large_ones.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
    }
}

fn ring(slabs: usize, pages: Counted) -> Ring<Counted> {
    Ring::new(pages, Box::leak(vec![0; slabs * SLAB].into_boxed_slice()))
}

fn progress(acknowledged: u64, resent: u64) -> Progress {
    Progress { acknowledged, resent }
}

/// Takes a slab and lends it until then; gives its place.
fn lend<P: Pages>(ring: &mut Ring<P>, until: u64) -> Option<usize> {
    let slab = ring.take()?;
    assert_eq!(ring.take(), Some(slab), "the same until it is lent");
    ring.lend(until);
    Some(slab)
}

/// Lends so many slabs, each of which comes back at once.
fn lend_in_turn(ring: &mut Ring<Counted>, slabs: u32) {
    for _ in 0..slabs {
        lend(ring, 0).expect("slabs come back");
        ring.reclaim(ring.progress);
    }
}

fn asked(ring: &Ring<Counted>) -> (u32, u32) {
    (ring.pages().renewed.get(), ring.pages().joined.get())
}

#[test]
fn slabs_are_lent_in_turn_and_never_all_of_them() {
    let mut ring = ring(8, Counted::default());
    let lent: Vec<_> = std::iter::from_fn(|| lend(&mut ring, 1)).collect();
    assert_eq!(lent, [0, 1, 2, 3, 4, 5], "three quarters");
    ring.reclaim(progress(1, 0));
    let again: Vec<_> = std::iter::from_fn(|| lend(&mut ring, 2)).collect();
    assert_eq!(again, [6, 7, 0, 1, 2, 3], "those that came back first, after those that were not lent");
}

#[test]
fn a_slab_is_free_again_when_all_of_it_is_acknowledged() {
    let mut ring = ring(2, Counted::default());
    let (a, b) = (lend(&mut ring, 100), lend(&mut ring, 200));
    assert!(a.is_some() && b.is_some() && a != b);
    assert_eq!(ring.take(), None);
    ring.reclaim(progress(99, 0));
    assert_eq!(ring.take(), None);
    ring.reclaim(progress(199, 0));
    assert_eq!((lend(&mut ring, 300), ring.take()), (a, None));
    assert_eq!(asked(&ring), (0, 0));
}

#[test]
fn pages_of_which_a_copy_may_be_under_way_are_renewed_when_no_others_are_left() {
    let mut ring = ring(3, Counted::default());
    lend(&mut ring, 100);
    ring.reclaim(progress(0, 1));
    let second = lend(&mut ring, 200);
    lend(&mut ring, 300);
    ring.reclaim(progress(200, 1));
    assert_eq!(lend(&mut ring, 400), second, "it left after something was sent again");
    assert_eq!(asked(&ring), (0, 0));
    assert!(ring.take().is_some());
    assert_eq!(asked(&ring), (1, 0));
    assert_eq!(ring.free.len(), 2, "even what is still lent: its readers keep the old pages");
    ring.reclaim(progress(400, 1));
    assert_eq!(ring.free.len(), 2, "nothing comes back twice");
}

#[test]
fn nothing_is_renewed_while_a_slab_is_written() {
    let mut ring = ring(2, Counted::default());
    lend(&mut ring, 100);
    let written = ring.take();
    ring.reclaim(progress(100, 1));
    assert!(ring.worn);
    assert_eq!((ring.take(), asked(&ring)), (written, (0, 0)));
}

#[test]
fn worn_slabs_are_given_up_where_pages_cannot_be_renewed() {
    let mut ring = ring(2, Counted { no_new_ones: true, ..Counted::default() });
    lend(&mut ring, 100);
    lend(&mut ring, 200);
    ring.reclaim(progress(100, 1));
    assert_eq!(ring.take(), None);
    assert!(!ring.is_spent(), "one may come back");
    ring.reclaim(progress(200, 1));
    assert_eq!(ring.take(), None);
    assert!(ring.is_spent());
}

#[test]
fn pages_become_one_large_page_in_calm_and_small_ones_after_a_loss() {
    let mut ring = ring(4, Counted::default());
    lend_in_turn(&mut ring, CALM - 1);
    ring.reclaim(progress(0, 1));
    lend_in_turn(&mut ring, CALM);
    assert_eq!(asked(&ring), (0, 0), "the count began again");
    lend_in_turn(&mut ring, 2 * CALM);
    assert_eq!((asked(&ring), ring.grain), ((1, 1), Grain::Large));
    while lend(&mut ring, 0).is_some() {}
    ring.reclaim(progress(0, 2));
    lend(&mut ring, 1).expect("one was not lent");
    lend_in_turn(&mut ring, 1);
    assert_eq!((asked(&ring), ring.grain), ((2, 1), Grain::Small { calm_for: 1 }));
}

#[test]
fn a_large_page_is_asked_for_again_unless_there_will_never_be_one() {
    // ENOMEM, EINVAL.
    for (number, asked_for) in [(12, 3), (22, 1)] {
        let mut ring = ring(4, Counted { no_large_ones: Some(number), ..Counted::default() });
        lend_in_turn(&mut ring, 3 * CALM + 1);
        assert_eq!(ring.pages().joined.get(), asked_for, "error {number}");
    }
    let mut ring = ring(4, Counted { no_new_ones: true, ..Counted::default() });
    lend_in_turn(&mut ring, 3 * CALM);
    assert_eq!((asked(&ring), ring.grain), ((1, 0), Grain::SmallOnly), "nor if there are no new ones");
}

#[cfg(target_os = "linux")]
#[test]
fn datagrams_lent_to_the_kernel_keep_their_bytes_when_the_pages_are_renewed() {
    let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    let mut sent = 0;
    let mut send_from = |ring: &mut Ring<File>| {
        sent += 1;
        let slab = ring.take().unwrap();
        ring.slab_mut(slab).clear();
        ring.slab_mut(slab).slot(5000).unwrap().fill(sent);
        assert_eq!(send(&from, ring.pages(), slab * SLAB, 5000).unwrap(), 5000);
        ring.lend(u64::from(sent));
    };
    let Ok(mut ring) = open() else {
        eprintln!("this kernel cannot send from a file: nothing to test");
        return;
    };
    // Unread when their pages go: two of small pages, three of a large one where the kernel has it, one whose ring
    // another socket uses next.
    send_from(&mut ring);
    send_from(&mut ring);
    ring.enlarge();
    if ring.grain != Grain::Large {
        eprintln!("no large page here: small ones are tested again");
    }
    (0..3).for_each(|_| send_from(&mut ring));
    assert!(ring.renew());
    send_from(&mut ring);
    recycle(ring);
    let mut ring = open().unwrap();
    send_from(&mut ring);
    let mut datagram = [0; 6000];
    for byte in 1..=7 {
        assert_eq!(to.recv(&mut datagram).unwrap(), 5000);
        assert!(datagram[..5000].iter().all(|b| *b == byte), "of datagram {byte}");
    }
}
