//! Number of flights of a copy: how often one side waits for the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::time::timeout;

use super::support::{Folder, bytes, listing, write};
use crate::session::pull_unconfirmed;
use crate::{Request, Root, push, serve};

/// Silence after which a flight is complete. Nothing is sent that early by itself.
const SILENCE: Duration = Duration::from_millis(300);
/// More than a copy of these tests writes at once.
const ROOM: usize = 4 << 20;

/// Carries bytes in flights: what a side writes arrives after it has fallen silent, and so does the
/// end of its stream. Returns the number of flights until that with the end of the client's stream.
async fn carry(near: DuplexStream, far: DuplexStream) -> u32 {
    let [(mut near_read, mut near_write), (mut far_read, mut far_write)] = [split(near), split(far)];
    let (mut flights, mut until_end, mut has_ended) = (0, 0, [false; 2]);
    while has_ended != [true; 2] {
        let is_from_near = flights % 2 == 0;
        let (read, write) =
            if is_from_near { (&mut near_read, &mut far_write) } else { (&mut far_read, &mut near_write) };
        let mut flight = Vec::new();
        while let Ok(Ok(length)) = timeout(SILENCE, read.read_buf(&mut flight)).await {
            if length == 0 {
                has_ended[usize::from(!is_from_near)] = true;
                break;
            }
        }
        flights += 1;
        if is_from_near && until_end == 0 && has_ended[0] {
            until_end = flights;
        }
        // Fails if the side has left, as it may.
        let _ = write.write_all(&flight).await;
        if has_ended[usize::from(!is_from_near)] {
            let _ = write.shutdown().await;
        }
    }
    until_end
}

/// Copies `source` and returns the number of flights until the client has left.
async fn flights(folder: &Folder, source: &str, is_push: bool) -> u32 {
    let request = Request { sources: vec![folder.path(source)], ..folder.request() };
    let ((near, near_link), (far_link, far)) = (duplex(ROOM), duplex(ROOM));
    let serving = tokio::spawn(serve(far, Root::whole().unwrap(), Arc::new(())));
    let client = async {
        let copied = if is_push {
            push(near, request, Arc::new(())).await
        } else {
            pull_unconfirmed(near, request, Arc::new(())).await
        };
        copied.unwrap()
    };
    let (summary, flights) = tokio::join!(client, carry(near_link, far_link));
    assert!(summary.is_complete(), "{summary:?}");
    assert!(serving.await.unwrap().unwrap().is_complete());
    flights
}

#[tokio::test]
async fn small_files_take_one_round_trip() {
    for is_push in [true, false] {
        let folder = Folder::new();
        for name in ["one", "two", "empty"] {
            write(folder.src().join(name), &bytes(name.len() - 3, 1));
        }
        // The third flight has the end of the client's stream.
        assert_eq!(flights(&folder, "src/two", is_push).await, 3, "push: {is_push}");
        assert_eq!(flights(&folder, "src/empty", is_push).await, 3, "push: {is_push}");
        assert_eq!(listing(&folder.dst()).len(), 2);
    }
}

#[tokio::test]
async fn folder_of_small_files_takes_at_most_two_round_trips() {
    for (is_push, expected) in [(true, 5), (false, 3)] {
        let folder = Folder::new();
        for number in 0..20 {
            write(folder.src().join(number.to_string()), &bytes(500 * number, 1));
        }
        assert!(flights(&folder, "src", is_push).await <= expected, "push: {is_push}");
        assert_eq!(listing(&folder.dst().join("src")), listing(&folder.src()));
    }
}

#[tokio::test]
async fn larger_file_is_wanted_before_it_leaves() {
    let folder = Folder::new();
    write(folder.src().join("large"), &bytes(200_000, 1));
    assert_eq!(flights(&folder, "src/large", true).await, 5);
    assert_eq!(flights(&folder, "src/large", true).await, 3, "it is there");
}
