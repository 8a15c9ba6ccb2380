//! Streaming reader of pcap and pcapng files.

use std::io::Read;

use pcap_parser::pcapng::{Block, EnhancedPacketBlock, InterfaceDescriptionBlock, OptionCode};
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};

/// Initial size of the read buffer. It doubles until a block fits.
const BUFFER_BYTES: usize = 1 << 16;
/// Largest size of the read buffer. A longer block counts as damage.
const MAX_BLOCK_BYTES: usize = 1 << 24;
/// Limit on the interfaces of a section, and of the file.
const MAX_INTERFACES: usize = 1024;
const NANOSECONDS: u64 = 1_000_000_000;

/// One record of the file.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Index of the interface in the file, from 0.
    pub interface: usize,
    /// Time since the epoch, nanoseconds.
    pub at_ns: u64,
    /// Type of the first header (the `LINKTYPE_` values of tcpdump.org).
    pub link: Linktype,
    /// Length of the packet on the wire, bytes.
    pub length: u32,
    /// Captured bytes: all of the packet, or its begin.
    pub bytes: &'a [u8],
    /// Drop that the packet's comment reports.
    pub note: Note,
}

/// Drop that the comment of a packet in a capture of `rdt-emu` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Note {
    /// None.
    #[default]
    None,
    /// The path dropped the packet when it arrived.
    Dropped,
    /// The path dropped the packet from a queue, or its second copy. The record repeats the packet,
    /// which has a record at its arrival.
    DroppedLater,
}

/// Contents of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extent {
    /// Names of the interfaces. A name is empty if the file has none.
    pub interfaces: Vec<String>,
    /// Number of packets.
    pub packets: u64,
    /// Packets without a time (simple packet blocks of pcapng), and those of an interface that the
    /// file does not describe. They are not read.
    pub unplaced: u64,
    /// End of the readable part, if the file goes on after it.
    pub torn: Option<Torn>,
}

/// Place at which reading ended before the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Offset of the first block or packet that cannot be read, bytes.
    pub offset: usize,
    /// True if the file ends within this block. False if the block is damaged.
    pub ends: bool,
}

/// Why nothing of a file can be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CaptureError {
    /// The first bytes are of no known format.
    #[error("it is neither pcap nor pcapng; 'editcap FILE new.pcapng' of Wireshark converts other formats")]
    Format,
    /// The system cannot read the file.
    #[error("it cannot be read")]
    Read,
}

/// Interface of a file.
struct Interface {
    /// Index in [`Extent::interfaces`].
    index: usize,
    link: Linktype,
    /// Units of time in a second.
    resolution: u64,
    offset_s: i64,
}

impl Interface {
    /// Returns a packet that the interface has at this many units of time.
    fn frame<'a>(&self, units: u64, length: u32, bytes: &'a [u8], note: Note) -> Frame<'a> {
        let ns = u128::from(units) * u128::from(NANOSECONDS) / u128::from(self.resolution);
        let offset_ns = self.offset_s.saturating_mul(1_000_000_000);
        let at_ns = u64::try_from(ns).unwrap_or(u64::MAX).saturating_add_signed(offset_ns);
        Frame { interface: self.index, at_ns, link: self.link, length, bytes, note }
    }
}

/// Reads a file, and calls `each` with every packet.
///
/// # Errors
/// The file cannot be read, or does not begin as a capture does. Damage after the begin is no
/// error, but reported in the [`Extent`].
pub fn read(
    file: impl Read + Send + 'static,
    mut each: impl FnMut(&Frame<'_>),
) -> Result<Extent, CaptureError> {
    let mut reader = create_reader(BUFFER_BYTES, file).map_err(|error| match error {
        PcapError::ReadError => CaptureError::Read,
        _ => CaptureError::Format,
    })?;
    let mut state = State::default();
    let mut capacity = BUFFER_BYTES;
    let mut unread = None;
    let ends = loop {
        match reader.next() {
            Ok((length, block)) => {
                state.block(&block, &mut each);
                reader.consume(length);
                unread = None;
            }
            Err(PcapError::Eof) => return Ok(state.extent),
            Err(PcapError::UnexpectedEof) => break true,
            Err(PcapError::Incomplete(_)) => {
                // A refill that adds nothing would make this loop endless.
                let held = reader.data().len();
                if unread == Some(held) && reader.reader_exhausted() {
                    break true;
                }
                unread = Some(held);
                if reader.refill().is_err() {
                    break true;
                }
            }
            Err(PcapError::BufferTooSmall) if capacity < MAX_BLOCK_BYTES => {
                capacity *= 2;
                if !reader.grow(capacity) || reader.refill().is_err() {
                    break false;
                }
            }
            Err(_) => break false,
        }
    };
    let rest = reader.data().len();
    if rest > 0 || !ends {
        state.extent.torn = Some(Torn { offset: reader.consumed(), ends });
    }
    Ok(state.extent)
}

#[derive(Default)]
struct State {
    extent: Extent,
    /// Interfaces of the current section. `None` beyond the limit on those of the file.
    interfaces: Vec<Option<Interface>>,
}

impl State {
    fn block(&mut self, block: &PcapBlockOwned<'_>, each: &mut impl FnMut(&Frame<'_>)) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let resolution = if header.is_nanosecond_precision() { NANOSECONDS } else { 1_000_000 };
                self.extent.interfaces.push(String::new());
                self.interfaces =
                    vec![Some(Interface { index: 0, link: header.network, resolution, offset_s: 0 })];
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(Some(interface)) = self.interfaces.first() else { return };
                let units = u64::from(packet.ts_sec) * interface.resolution + u64::from(packet.ts_usec);
                let length = usize::try_from(packet.caplen).unwrap_or(usize::MAX).min(packet.data.len());
                self.extent.packets += 1;
                each(&interface.frame(units, packet.origlen, &packet.data[..length], Note::None));
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => self.interface(block),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => self.packet(packet, each),
            PcapBlockOwned::NG(Block::SimplePacket(_)) => {
                self.extent.packets += 1;
                self.extent.unplaced += 1;
            }
            PcapBlockOwned::NG(_) => {}
        }
    }

    fn interface(&mut self, block: &InterfaceDescriptionBlock<'_>) {
        if self.interfaces.len() >= MAX_INTERFACES {
            return;
        }
        let name = block.if_name().and_then(Result::ok).unwrap_or_default().to_owned();
        // Files that were joined describe the same interfaces in each section.
        let names = &mut self.extent.interfaces;
        let known = names.iter().position(|other| *other == name && !name.is_empty());
        let index = known.or_else(|| {
            let has_room = names.len() < MAX_INTERFACES;
            has_room.then(|| {
                names.push(name);
                names.len() - 1
            })
        });
        self.interfaces.push(index.map(|index| Interface {
            index,
            link: block.linktype,
            resolution: units_in_a_second(block.if_tsresol),
            offset_s: block.ts_offset(),
        }));
    }

    fn packet(&mut self, packet: &EnhancedPacketBlock<'_>, each: &mut impl FnMut(&Frame<'_>)) {
        self.extent.packets += 1;
        let index = usize::try_from(packet.if_id).unwrap_or(usize::MAX);
        let Some(Some(interface)) = self.interfaces.get(index) else {
            self.extent.unplaced += 1;
            return;
        };
        let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
        each(&interface.frame(units, packet.origlen, packet.packet_data(), note(packet)));
    }
}

/// Reads the comments that `rdt-emu` writes (docs/EMULATOR.md, "Captures").
fn note(packet: &EnhancedPacketBlock<'_>) -> Note {
    let comments = packet.options.iter().filter(|option| option.code == OptionCode::Comment);
    let mut note = Note::None;
    for comment in comments.filter_map(|option| option.as_str().ok()) {
        if comment.starts_with("dropped: ") {
            note = Note::Dropped;
        } else if comment.starts_with("dropped after ") || comment.starts_with("second copy dropped") {
            note = Note::DroppedLater;
        }
    }
    note
}

/// Returns the resolution of the option `if_tsresol`: a power of ten, or with the highest bit one
/// of two. pcap-parser 0.17 returns none for powers of two. One beyond 64 bits counts as
/// microseconds, the default.
fn units_in_a_second(option: u8) -> u64 {
    let power = u32::from(option & 0x7F);
    let units = if option & 0x80 == 0 { 10_u64.checked_pow(power) } else { 1_u64.checked_shl(power) };
    units.unwrap_or(1_000_000)
}
