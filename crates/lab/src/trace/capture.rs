//! Streaming reader of pcap and pcapng files, plain or compressed by gzip.

use std::io::{Cursor, ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use pcap_parser::pcapng::{Block, EnhancedPacketBlock, InterfaceDescriptionBlock, OptionCode};
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{LegacyPcapBlock, PcapBlockOwned, PcapError, create_reader};

/// Initial size of the read buffer. It doubles until a block fits.
const BUFFER_BYTES: usize = 1 << 16;
/// First bytes of a file that gzip compressed (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1F, 0x8B];
/// First bytes of files that other programs compressed, and these programs.
const COMPRESSED: [(&[u8], &str); 4] = [
    (&[0x28, 0xB5, 0x2F, 0xFD], "zstd"),
    (&[0xFD, b'7', b'z', b'X', b'Z'], "xz"),
    (&[0x04, 0x22, 0x4D, 0x18], "lz4"),
    (b"BZh", "bzip2"),
];
/// Type of pcapng's obsolete Packet Block, which pcap-parser does not know.
const PACKET_BLOCK: u32 = 2;
/// Bits of the word in a pcap header that are the link type. Those above them are the length of the
/// frame check sequence, and whether it is there (draft-ietf-opsawg-pcap, section 4).
const LINK_TYPE_BITS: i32 = 0xFFFF;
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
    /// Number of interfaces that the file has described so far.
    pub interfaces: usize,
    /// Type of the first header (the `LINKTYPE_` values of tcpdump.org).
    pub link: i32,
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
    /// Packets of an interface that the file does not describe. They are not read.
    pub unplaced: u64,
    /// Packets without a time (simple packet blocks of pcapng), read at the time of the packet
    /// before them.
    pub timeless: u64,
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
    /// A program compressed the file that this one does not have.
    #[error("it is compressed; '{0} -dc FILE | rdt-lab trace -' reads it")]
    Compressed(&'static str),
    /// The file has no byte.
    #[error("it is empty")]
    Empty,
    /// The system cannot read the file.
    #[error("it cannot be read: {0}")]
    Read(ErrorKind),
}

impl Extent {
    /// True if an interface has this name, or has no name and this number.
    pub fn is_called(&self, interface: usize, name: &str) -> bool {
        match self.interfaces.get(interface) {
            Some(own) if own.is_empty() => interface.to_string() == name,
            own => own.is_some_and(|own| own == name),
        }
    }

    /// Returns the name of an interface. Without a name it is the interface's number in a file with
    /// several, and empty in others.
    pub fn name(&self, interface: usize) -> String {
        match self.interfaces.get(interface) {
            Some(name) if name.is_empty() && self.interfaces.len() > 1 => interface.to_string(),
            name => name.cloned().unwrap_or_default(),
        }
    }
}

/// Interface of a file.
struct Interface {
    /// Index in [`Extent::interfaces`].
    index: usize,
    link: i32,
    /// Units of time in a second.
    resolution: u64,
    offset_s: i64,
}

impl Interface {
    /// Returns the time since the epoch that this number of units is, nanoseconds.
    fn time(&self, units: u64) -> u64 {
        let ns = u128::from(units) * u128::from(NANOSECONDS) / u128::from(self.resolution);
        let offset_ns = self.offset_s.saturating_mul(1_000_000_000);
        u64::try_from(ns).unwrap_or(u64::MAX).saturating_add_signed(offset_ns)
    }
}

/// Reads a file, and calls `each` with every packet. With `interface`, a name or the number of an
/// interface without one, only with the packets of this interface.
///
/// # Errors
/// The file cannot be read, or does not begin as a capture does. Damage after the begin is no
/// error, but reported in the [`Extent`].
pub fn read(
    file: impl Read + Send + 'static,
    interface: Option<&str>,
    mut each: impl FnMut(&Frame<'_>),
) -> Result<Extent, CaptureError> {
    let mut reader = create_reader(BUFFER_BYTES, plain(file)?).map_err(|error| match error {
        PcapError::Eof => CaptureError::Empty,
        _ => CaptureError::Format,
    })?;
    let mut state = State { wanted: interface.map(str::to_owned), ..State::default() };
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

/// Returns the content of a file that may be compressed. Its first read returns as much as there is
/// up to the size of the read buffer, because pcap-parser takes the format from one read.
fn plain(mut file: impl Read + Send + 'static) -> Result<Box<dyn Read + Send>, CaptureError> {
    let begin = begin(&mut file)?;
    let is_compressed = begin.starts_with(&GZIP);
    let other = COMPRESSED.iter().find(|(magic, _)| begin.starts_with(magic));
    if let Some((_, program)) = other {
        return Err(CaptureError::Compressed(program));
    }
    let whole = Cursor::new(begin).chain(file);
    if !is_compressed {
        return Ok(Box::new(whole));
    }
    let mut content = MultiGzDecoder::new(whole);
    let begin = self::begin(&mut content)?;
    // A torn file smaller than the buffer ends here: pcap-parser takes a second error for a format.
    let is_whole = begin.len() < BUFFER_BYTES;
    Ok(Box::new(Cursor::new(begin).chain(content.take(if is_whole { 0 } else { u64::MAX }))))
}

fn begin(file: &mut impl Read) -> Result<Vec<u8>, CaptureError> {
    let mut begin = Vec::new();
    match file.take(BUFFER_BYTES as u64).read_to_end(&mut begin) {
        Err(error) if begin.is_empty() => Err(CaptureError::Read(error.kind())),
        _ => Ok(begin),
    }
}

#[derive(Default)]
struct State {
    extent: Extent,
    /// Interfaces of the current section. `None` beyond the limit on those of the file.
    interfaces: Vec<Option<Interface>>,
    /// True if words of the section begin with their most significant byte.
    is_big_endian: bool,
    /// Time of the latest packet, nanoseconds.
    last_ns: u64,
    /// Name or number of the interface whose packets are wanted. `None` for all.
    wanted: Option<String>,
}

/// Packet as a block has it.
struct Record<'a> {
    /// Index of the interface in the section.
    interface: usize,
    /// Time in units of the interface. `None` if the block has none.
    units: Option<u64>,
    length: u32,
    bytes: &'a [u8],
    note: Note,
}

impl State {
    fn block(&mut self, block: &PcapBlockOwned<'_>, each: &mut impl FnMut(&Frame<'_>)) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let resolution = if header.is_nanosecond_precision() { NANOSECONDS } else { 1_000_000 };
                self.extent.interfaces.push(String::new());
                let link = header.network.0 & LINK_TYPE_BITS;
                self.interfaces = vec![Some(Interface { index: 0, link, resolution, offset_s: 0 })];
            }
            PcapBlockOwned::Legacy(packet) => self.legacy(packet, each),
            PcapBlockOwned::NG(Block::SectionHeader(header)) => {
                self.is_big_endian = header.big_endian();
                self.interfaces.clear();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => self.interface(block),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let record = Record {
                    interface: usize::try_from(packet.if_id).unwrap_or(usize::MAX),
                    units: Some(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low)),
                    length: packet.origlen,
                    bytes: packet.packet_data(),
                    note: note(packet),
                };
                self.packet(&record, each);
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let (length, bytes) = (packet.origlen, packet.packet_data());
                self.packet(&Record { interface: 0, units: None, length, bytes, note: Note::None }, each);
            }
            PcapBlockOwned::NG(Block::Unknown(block)) => {
                // pcap-parser reads the type of each block as little-endian.
                let kind = if self.is_big_endian { block.block_type.swap_bytes() } else { block.block_type };
                let record = obsolete(block.data, self.is_big_endian).filter(|_| kind == PACKET_BLOCK);
                if let Some(record) = record {
                    self.packet(&record, each);
                }
            }
            PcapBlockOwned::NG(_) => {}
        }
    }

    fn legacy(&mut self, packet: &LegacyPcapBlock<'_>, each: &mut impl FnMut(&Frame<'_>)) {
        let Some(Some(interface)) = self.interfaces.first() else { return };
        let units = u64::from(packet.ts_sec) * interface.resolution + u64::from(packet.ts_usec);
        let captured = usize::try_from(packet.caplen).unwrap_or(usize::MAX).min(packet.data.len());
        let record = Record {
            interface: 0,
            units: Some(units),
            length: packet.origlen,
            bytes: &packet.data[..captured],
            note: Note::None,
        };
        self.packet(&record, each);
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
            link: block.linktype.0,
            resolution: units_in_a_second(block.if_tsresol),
            offset_s: block.ts_offset(),
        }));
    }

    fn packet(&mut self, record: &Record<'_>, each: &mut impl FnMut(&Frame<'_>)) {
        self.extent.packets += 1;
        let Some(Some(interface)) = self.interfaces.get(record.interface) else {
            self.extent.unplaced += 1;
            return;
        };
        self.extent.timeless += u64::from(record.units.is_none());
        let at_ns = record.units.map_or(self.last_ns, |units| interface.time(units));
        self.last_ns = at_ns;
        if self.wanted.as_ref().is_some_and(|wanted| !self.extent.is_called(interface.index, wanted)) {
            return;
        }
        each(&Frame {
            interface: interface.index,
            interfaces: self.extent.interfaces.len(),
            at_ns,
            link: interface.link,
            length: record.length,
            bytes: record.bytes,
            note: record.note,
        });
    }
}

/// Reads an obsolete Packet Block: interface and drops of 16 bits, time in two words, captured
/// length, length, packet.
fn obsolete(block: &[u8], is_big_endian: bool) -> Option<Record<'_>> {
    let (header, packet) = block.split_first_chunk::<20>()?;
    let word = |at: usize| {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let first = if is_big_endian { word(0) >> 16 } else { word(0) & 0xFFFF };
    let captured = usize::try_from(word(12)).ok()?.min(packet.len());
    Some(Record {
        interface: usize::try_from(first).ok()?,
        units: Some(u64::from(word(4)) << 32 | u64::from(word(8))),
        length: word(16),
        bytes: &packet[..captured],
        note: Note::None,
    })
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
