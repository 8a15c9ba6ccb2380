//! Times at which packets enter, and the model's deliveries of these packets.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use pcap_file::pcapng::{Block, PcapNgReader};

use super::ends::{Arrival, PAYLOAD, number};
use super::modes::{PATH, PROGRAM};

/// Size of an IP packet, bytes.
const PACKET: usize = 28 + PAYLOAD;

struct Due {
    at_ns: u64,
    is_changed: bool,
}

pub(crate) struct Difference {
    /// Packets that entered the path.
    pub(crate) entered: usize,
    /// Deliveries of the model for which there is an arrival.
    pub(crate) compared: usize,
    /// Packets that the model and the emulator treated differently.
    pub(crate) other_fates: usize,
    /// Time of each arrival after its due time in the model, ascending, ns.
    pub(crate) late_ns: Vec<i64>,
}

/// Compares arrivals with the model. `drops_changed` is true if the receiving kernel drops
/// datagrams with a flipped bit.
pub(crate) fn compare(capture: &Path, arrivals: &[Arrival], drops_changed: bool) -> Difference {
    let entered = entered(capture);
    let mut dues = simulate(&entered, &capture.with_extension("schedule"));
    let mut arrived: HashMap<u32, Vec<Arrival>> = HashMap::new();
    for arrival in arrivals {
        arrived.entry(arrival.number).or_default().push(*arrival);
    }
    let (mut late_ns, mut other_fates) = (Vec::new(), 0);
    for ((number, _), dues) in entered.iter().zip(&mut dues) {
        dues.retain(|due| !(drops_changed && due.is_changed));
        let arrived = arrived.remove(number).unwrap_or_default();
        let is_same = arrived.iter().map(|it| it.is_changed).eq(dues.iter().map(|due| due.is_changed));
        other_fates += usize::from(!is_same);
        late_ns.extend(
            arrived.iter().zip(dues).map(|(it, due)| it.at_ns.cast_signed() - due.at_ns.cast_signed()),
        );
    }
    // Arrivals without an entering packet.
    other_fates += arrived.len();
    late_ns.sort_unstable();
    Difference { entered: entered.len(), compared: late_ns.len(), other_fates, late_ns }
}

/// Returns number and time (ns since 1970) of the packets that entered at the near end.
fn entered(capture: &Path) -> Vec<(u32, u64)> {
    let bytes = fs::read(capture).unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut entered = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap()
            && packet.interface_id == 0
            && packet.data.len() == PACKET
        {
            entered.push((number(&packet.data), u64::try_from(packet.timestamp.as_nanos()).unwrap()));
        }
    }
    entered
}

/// Returns the model's deliveries of each packet; a duplicate follows its original.
fn simulate(entered: &[(u32, u64)], schedule: &Path) -> Vec<Vec<Due>> {
    let begin = entered[0].1;
    let mut lines = String::new();
    for (_, at_ns) in entered {
        writeln!(lines, "{}ns {PACKET}", at_ns - begin).unwrap();
    }
    fs::write(schedule, lines).unwrap();
    let output = Command::new(PROGRAM).args(["sim", "-q"]).args(PATH).arg(schedule).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut dues: Vec<_> = entered.iter().map(|_| Vec::new()).collect();
    for row in String::from_utf8(output.stdout).unwrap().lines().skip(1) {
        let columns: Vec<_> = row.split(',').collect();
        let [n, _, _, _, fate, due_ns, _, changed, _] = columns[..] else { panic!("{row}") };
        if fate == "delivered" {
            let due_ns: u64 = due_ns.parse().unwrap();
            dues[n.parse::<usize>().unwrap()].push(Due { at_ns: begin + due_ns, is_changed: changed == "1" });
        }
    }
    dues
}
