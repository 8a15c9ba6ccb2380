-- Wireshark dissector of rdt: the classic format, and what the native format leaves in the clear: all without encryption.
-- docs/PROTOCOL.md (sections N1 to N10) and docs/CLASSIC.md (sections 1 to 6) specify the formats; section numbers here are
-- of these documents. README.md says how to install it.

-- The name "rdt" belongs to another protocol that Wireshark knows (RealMedia); the fields are rdt.* all the same.
local rdt = Proto("rdt-udp", "rdt reliable transport over UDP")
rdt.prefs.check = Pref.bool("Verify CRC-32 of native packets", true, "Costs about 0.1 ms for a full packet")

local TYPES = {
    [1] = "SYN", [2] = "RETRY", [3] = "SYN-ACK", [4] = "DATA", [5] = "OPEN-ACK", [6] = "ACK", [7] = "FIN", [8] = "FIN-ACK", [9] = "CLOSE",
    [10] = "VERSIONS", [11] = "AUTH", [12] = "PATH", [13] = "RESET", [14] = "REFUSE", [15] = "OPEN",
}
local REASONS = {
    [1] = "refused or too busy", [2] = "version", [3] = "protocol violation", [4] = "application gave up",
    [5] = "storing failed", [7] = "idle for too long",
    [9] = "too many connections", [10] = "key not admitted", [11] = "other secret wanted, or secret used up",
    [12] = "Noise message does not open", [13] = "no encryption offered", [15] = "OPEN does not fit",
}
local PATTERNS = { [1] = "XX", [2] = "NK", [3] = "IK", [17] = "XXpsk3", [18] = "NKpsk2", [19] = "IKpsk2" }
local CHECK_STATUS = { [0] = "bad", [1] = "good", [2] = "unverified" }

local f, fields = {}, {}
local function field(key, kind, name, ...)
    f[key] = ProtoField[kind]("rdt." .. key, name, ...)
    fields[#fields + 1] = f[key]
end
field("wire", "string", "Wire format")
field("type", "uint8", "Packet", base.DEC, TYPES)
field("stream", "uint32", "Transfer in this capture")
field("segments", "uint32", "Datagrams in this frame (segmentation offload)")
field("flags", "uint8", "Flags", base.HEX)
field("flags.fin", "bool", "FIN", 8, nil, 0x80)
field("flags.ack", "bool", "ACK", 8, nil, 0x40)
field("flags.syn", "bool", "SYN", 8, nil, 0x20)
field("connection_id", "uint64", "Connection id", base.HEX)
field("check", "uint32", "CRC-32 of the packet", base.HEX)
field("check.status", "uint8", "Check", base.DEC, CHECK_STATUS)
field("seq", "uint64", "Sequence number (classic: packets, native: bytes)")
field("packet_number", "uint32", "Packet number")
field("length", "uint32", "Payload bytes")
field("payload", "bytes", "Payload")
field("ack", "uint64", "Next expected (classic: packets, native: bytes)")
field("window", "uint64", "Window (classic: packets, native: bytes)")
field("ack_at_once", "bool", "ACK wanted at once")
field("ack_every", "uint16", "ACK after this number of packets (0: as agreed)")
field("ack.largest", "uint32", "Largest packet number received")
field("ack.sent", "uint32", "Time of the ACK by the receiver's clock (us)")
field("ack.delay", "uint32", "Delay of the ACK (us)")
field("ack.received", "uint32", "Packets received")
field("ack.duplicates", "uint32", "Duplicates received")
field("ack.ce", "uint32", "Packets received with CE")
field("ack.no_codepoint", "uint32", "Packets received without an ECN codepoint")
field("ack.receiver_drops", "uint32", "Messages that found the receiver's socket full")
field("sack", "string", "SACK block")
field("sack.start", "uint64", "First byte")
field("sack.end", "uint64", "Byte after the last")
field("stream_length", "uint64", "Length of the stream")
field("crc", "uint32", "CRC-32 of the stream", base.HEX)
field("fin.ack_aware", "bool", "Sender understands ACKs of a FIN")
field("reason", "uint16", "Reason", base.DEC, REASONS)
field("code", "uint32", "Code of the application")
field("text", "string", "Text")
field("path.response", "bool", "Answer to a probe")
field("path.random", "uint64", "Random number of the probe", base.HEX)
field("versions", "uint16", "Versions", base.HEX)
field("cookie", "bytes", "Cookie")
field("syn_number", "uint8", "Number of the SYN among those with this cookie")
field("link.rtt", "double", "Round trip of the requested link (s)")
field("link.rate", "double", "Rate of the requested link (bit/s)")
field("link.loss_forward", "double", "Forward loss of the requested link")
field("link.loss_reverse", "double", "Reverse loss of the requested link")
field("link.buffer", "uint64", "Buffer of the requested link (packets)")
field("pattern", "uint8", "Noise pattern", base.DEC, PATTERNS)
field("aeads", "uint8", "AEADs offered", base.HEX)
field("aeads.aes128", "bool", "AES-128-GCM", 8, nil, 0x01)
field("aeads.aes256", "bool", "AES-256-GCM", 8, nil, 0x02)
field("aeads.chacha", "bool", "ChaCha20-Poly1305", 8, nil, 0x04)
field("aeads.none", "bool", "None: no encryption", 8, nil, 0x08)
field("aeads.hardware", "bool", "Has instructions for AES", 8, nil, 0x80)
field("secret_id", "uint64", "Identifier of the shared secret", base.HEX)
field("noise", "bytes", "Noise message")
field("token", "bytes", "Token of resets")
field("association", "uint64", "Association", base.HEX)
field("association.number", "uint64", "Number of the connection in its association")
field("key_phase", "uint16", "Key phase", base.DEC)
field("has_ack", "bool", "An ACK precedes the payload")
field("encrypted", "bytes", "Encrypted payload")
field("tag", "bytes", "Authentication tag")
field("retransmission", "bool", "Retransmission")
field("duplicate", "bool", "Copy of an earlier packet, made by the network")
field("out_of_order", "bool", "Out of order, or sent again after a loss before the capture")
field("keep_alive", "bool", "Keep-alive")
field("duplicate_ack", "uint32", "Duplicate ACK")
field("ack.frame", "framenum", "ACK of the packet in frame", base.NONE, frametype.ACK)
field("ack.rtt", "double", "Round trip without the delay of the ACK (s)")
rdt.fields = fields

local e = {
    check = ProtoExpert.new("rdt.check.bad", "Wrong CRC-32", expert.group.CHECKSUM, expert.severity.ERROR),
    malformed = ProtoExpert.new("rdt.malformed", "Against the format", expert.group.MALFORMED, expert.severity.ERROR),
    again = ProtoExpert.new("rdt.analysis.retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
    copy = ProtoExpert.new("rdt.analysis.duplicate", "Duplicate", expert.group.SEQUENCE, expert.severity.NOTE),
    order = ProtoExpert.new("rdt.analysis.out_of_order", "Out of order", expert.group.SEQUENCE, expert.severity.NOTE),
    closed = ProtoExpert.new("rdt.analysis.zero_window", "Window is closed", expert.group.SEQUENCE, expert.severity.NOTE),
    ended = ProtoExpert.new("rdt.analysis.closed", "Ended by the peer", expert.group.SEQUENCE, expert.severity.WARN),
    cut = ProtoExpert.new("rdt.truncated", "Cut by the capture", expert.group.UNDECODED, expert.severity.NOTE),
}
rdt.experts = { e.check, e.malformed, e.again, e.copy, e.order, e.closed, e.ended, e.cut }

-- CRC-32 (IEEE 802.3), eight bytes a step. Registers are signed 32-bit numbers, as the bit library returns them.
local bxor, band, rshift = bit.bxor, bit.band, bit.rshift
local T = { {} }
for i = 0, 255 do
    local c = i
    for _ = 1, 8 do c = c % 2 == 1 and bxor(rshift(c, 1), 0xEDB88320) or rshift(c, 1) end
    T[1][i] = c
end
for k = 2, 8 do
    T[k] = {}
    for i = 0, 255 do T[k][i] = bxor(rshift(T[k - 1][i], 8), T[1][band(T[k - 1][i], 255)]) end
end

local function crc_update(crc, s, first, last)
    local T1, T2, T3, T4, T5, T6, T7, T8 = T[1], T[2], T[3], T[4], T[5], T[6], T[7], T[8]
    local i = first
    while i + 7 <= last do
        local a, b, c, d, p, q, r, t = s:byte(i, i + 7)
        local x = bxor(crc, a + b * 0x100 + c * 0x10000 + d * 0x1000000)
        a = x % 256; x = (x - a) / 256
        b = x % 256; x = (x - b) / 256
        c = x % 256; d = (x - c) / 256 % 256
        crc = bxor(T8[a], T7[b], T6[c], T5[d], T4[p], T3[q], T2[r], T1[t])
        i = i + 8
    end
    for j = i, last do crc = bxor(rshift(crc, 8), T1[band(bxor(crc, s:byte(j)), 255)]) end
    return crc
end

-- Check of a packet of the native handshake: the packet with its check as zero.
local function native_check(raw)
    local crc = crc_update(-1, raw:sub(1, 4) .. "\0\0\0\0" .. raw:sub(9), 1, #raw)
    return bxor(crc, -1) % 0x100000000
end

local function le(raw, at, bytes)
    local value = 0
    for i = bytes, 1, -1 do value = value * 256 + raw:byte(at + i) end
    return value
end

-- The tag of a packet without encryption is a CRC-32 of all before it, and zeros. Sixteen zeros are the tag of the
-- vectors that are not sealed yet.
local NO_TAG = ("\0"):rep(16)
local function is_plain(raw) return raw:sub(-12) == NO_TAG:sub(5) and raw:sub(-16) ~= NO_TAG end
local function plain_check(raw) return bxor(crc_update(-1, raw, 1, #raw - 16), -1) % 0x100000000 end

-- Number of variable length (N3): its value as double, as UInt64, and the offset behind it. Nil if it breaks a rule.
local function varint(raw, at, bits)
    local part, length = { 0, 0, 0 }, 0
    while true do
        local b = raw:byte(at + length + 1)
        if not b or length == 10 then return nil end
        local k = math.floor(length / 4)
        part[k + 1] = part[k + 1] + b % 128 * 2 ^ (7 * (length - 4 * k))
        length = length + 1
        if b < 128 then
            if b == 0 and length > 1 then return nil end
            break
        end
    end
    local value = part[1] + part[2] * 2 ^ 28 + part[3] * 2 ^ 56
    if value >= 2 ^ bits then return nil end
    local high = math.floor(part[2] / 16) + part[3] * 2 ^ 24
    return value, UInt64.new(part[1] + part[2] % 16 * 2 ^ 28, high), at + length
end

-- State across packets, filled in the first pass. `marks` holds what the analysis found, by frame and datagram.
local streams, pairs_known, ids, marks, next_stream
local function reset() streams, pairs_known, ids, marks, next_stream = {}, {}, {}, {}, 0 end
reset()
rdt.init = reset

local interface_id = Field.new("frame.interface_id")

-- Where the packet was captured and in which direction it goes: a capture of rdt-emu has each packet once on either side.
local function place(pinfo)
    local source = tostring(pinfo.src) .. ":" .. pinfo.src_port
    local target = tostring(pinfo.dst) .. ":" .. pinfo.dst_port
    local interface = interface_id()
    return {
        source = source, target = target, side = interface and tostring(interface.value) or "0",
        pair = source < target and source .. " " .. target or target .. " " .. source,
    }
end

local function new_stream(key)
    local stream = { number = next_stream, sides = {} }
    next_stream = next_stream + 1
    streams[key] = stream
    return stream
end

-- Classic transfers of one pair of addresses follow one another: a SYN after a FIN-ACK begins the next one.
local function classic_stream(at, kind)
    local key = "classic " .. at.pair
    local stream = streams[key]
    if not stream or (kind == 1 and stream.finished) then stream = new_stream(key) end
    if kind == 8 then stream.finished = true end
    return stream
end

-- A packet names the receiving side's id, and the responder's is encrypted. It is tied to the initiator's if only
-- one handshake of the pair of addresses waits for it; otherwise each direction counts as a stream of its own.
local function native_stream(at, kind, id)
    local key = "native " .. at.pair .. " " .. id
    local waiting = pairs_known[at.pair] or {}
    pairs_known[at.pair] = waiting
    local stream = streams[key] or ids[id]
    if not stream then
        if kind > 3 and kind ~= 15 and #waiting == 1 then
            stream = table.remove(waiting)
            streams[key] = stream
        else
            stream = new_stream(key)
        end
    end
    if (kind == 3 or kind == 15) and not stream.answered then
        stream.answered = true
        waiting[#waiting + 1] = stream
    end
    ids[id] = stream
    return stream
end

local function side_of(stream, at)
    local key = at.side .. " " .. at.source
    local side = stream.sides[key]
    if not side then
        side = { last = -1, packets = {}, acks = {}, kinds = {} }
        stream.sides[key] = side
    end
    return side, stream.sides[at.side .. " " .. at.target]
end

-- DATA with packet numbers. A packet is a retransmission if one with a lower number carried bytes
-- at or beyond its offset; an equal number is a copy that the network made.
local function analyse_native(side, number, offset, length, mark)
    if side.packets[number] then
        mark.duplicate = true
        return
    end
    local before = -1
    if number > side.last then
        before = side.top or 0
    else
        for n = number - 1, math.max(0, number - 4096), -1 do
            if side.packets[n] then before = side.packets[n].top break end
        end
    end
    if length > 0 and offset < before then mark.retransmission = true end
    mark.top = math.max(before, offset + length)
    side.packets[number] = mark
    if number > side.last then side.last, side.top = number, mark.top end
end

local function analyse_classic(side, seq, length, mark)
    local earlier = side.packets[seq]
    if length == 0 and seq <= side.last then
        mark.keep_alive = true
    elseif earlier then
        mark.retransmission, earlier.again = true, true
    elseif seq < side.last then
        mark.out_of_order = true
    end
    if not earlier then side.packets[seq] = mark end
    side.last = math.max(side.last, seq)
end

-- Packets without a number of their own (SYN, FIN of the classic format): the second one is a retransmission.
local function analyse_repeated(side, kind, mark)
    mark.retransmission = side.kinds[kind]
    side.kinds[kind] = true
end

local function acknowledge(packet, now, delay, mark)
    if packet and packet.time and not packet.again then
        mark.acked, mark.rtt = packet.frame, now - packet.time - delay
    end
end

local function show_marks(t, mark)
    local function add(key, value, about)
        if not value then return end
        local item = t:add(f[key], value):set_generated()
        if about then item:add_proto_expert_info(about) end
    end
    add("retransmission", mark.retransmission, e.again)
    add("duplicate", mark.duplicate, e.copy)
    add("out_of_order", mark.out_of_order, e.order)
    add("keep_alive", mark.keep_alive)
    add("duplicate_ack", mark.duplicate_ack)
    add("ack.frame", mark.acked)
    add("ack.rtt", mark.rtt)
end

-- A packet under dissection: `c.t` its tree, `c.seg` its bytes, `c.raw` those as a string, `c.n` its length on the wire.
local function wrong(c, text) c.t:add_proto_expert_info(e.malformed, text) end
local function say(c, text) c.info[#c.info + 1] = text end
local function needs(c, bytes)
    if c.n < bytes then wrong(c, TYPES[c.kind] .. " has " .. c.n .. " bytes, " .. bytes .. " at least") return false end
    if #c.raw < bytes then c.t:add_proto_expert_info(e.cut) return false end
    return true
end
local function exactly(c, bytes)
    if c.n > bytes then wrong(c, TYPES[c.kind] .. " has " .. c.n .. " bytes instead of " .. bytes) end
    return needs(c, bytes)
end
local function reserved(c, value)
    if value ~= 0 then wrong(c, "reserved bits are set") end
end
local function rest(c, key, at, bytes)
    local length = math.min(bytes, #c.raw - at)
    if length > 0 then c.t:add(f[key], c.seg(at, length)) end
end
local function window(c, at, length, value, number)
    local item = c.t:add(f.window, c.seg(at, length), value)
    if number == 0 then item:add_proto_expert_info(e.closed) end
    say(c, "window=" .. tostring(value))
end

-- Shows the CRC-32 at this offset, and whether it is the one that `of` computes.
local function show_check(c, at, of)
    local item = c.t:add_le(f.check, c.seg(at, 4))
    local status = 2
    if rdt.prefs.check and #c.raw == c.n then
        status = of(c.raw) == le(c.raw, at, 4) and 1 or 0
        if status == 0 then item:add_proto_expert_info(e.check) end
    end
    item:add(f["check.status"], c.seg(at, 4), status):set_generated()
end

local function sack_blocks(c, at, blocks, next_byte)
    local edge, item = next_byte, nil
    for _ = 1, blocks do
        local gap, _, after = varint(c.raw, at, 64)
        local length, _, finish
        if gap then length, _, finish = varint(c.raw, after, 64) end
        if not finish or gap == 0 or length == 0 then wrong(c, "SACK block against the format") return nil end
        local first, last = edge + gap, edge + gap + length
        local text = string.format("%.0f-%.0f", first, last)
        item = c.t:add(f.sack, c.seg(at, finish - at), text)
        item:add(f["sack.start"], c.seg(at, after - at), UInt64(first))
        item:add(f["sack.end"], c.seg(after, finish - after), UInt64(last))
        say(c, "sack=" .. text)
        edge, at = last, finish
    end
    return at
end

-- ACK at this offset, up to `stop` at most: returns the offset behind it. Numbers of variable length in their order; bit
-- 14 of the flags announces the counts of codepoints.
local function native_ack(c, start, stop)
    if start + 10 > stop then wrong(c, "ACK beyond the end of the packet") return end
    local flags = le(c.raw, start, 2)
    local blocks, counted, drops = flags % 64, band(flags, 0x4000) ~= 0, band(flags, 0x8000) ~= 0
    reserved(c, band(flags, 0x3FC0))
    if blocks > 32 then wrong(c, "more than 32 SACK blocks") end
    local largest = le(c.raw, start + 2, 4)
    c.t:add_le(f["ack.largest"], c.seg(start + 2, 4))
    c.t:add_le(f["ack.sent"], c.seg(start + 6, 4))
    local at, value = start + 10, {}
    for _, rule in ipairs({ { "ack.delay", 32 }, { "ack", 64 }, { "window", 64 }, { "ack.received", 32 },
        { "ack.duplicates", 32 }, { "ack.ce", 32, true }, { "ack.no_codepoint", 32, true } }) do
        if not rule[3] or counted then
            local key = rule[1]
            local number, exact, after = varint(c.raw, at, rule[2])
            if not number then wrong(c, "number of variable length against the format") return end
            if key == "ack.received" then number = (largest + 1 - number) % 0x100000000 end
            if key == "window" then
                window(c, at, after - at, exact, number)
            else
                c.t:add(f[key], c.seg(at, after - at), rule[2] == 64 and exact or number)
            end
            if key == "ack" then say(c, "ack=" .. tostring(exact)) end
            value[key], at = number, after
        end
    end
    at = sack_blocks(c, at, blocks, value.ack)
    if not at then return end
    if drops then
        local number, _, after = varint(c.raw, at, 32)
        if not number then wrong(c, "number of variable length against the format") return end
        c.t:add(f["ack.receiver_drops"], c.seg(at, after - at), number)
        at = after
    end
    if at > stop then wrong(c, "ACK beyond the end of the packet") return end
    c.largest, c.delay = largest, value["ack.delay"]
    return at
end

-- Packets of the native handshake (N6), VERSIONS (N5) and RESET (N8). Packets with a number are sealed.
local handshake = {}
handshake[2] = function(c)
    reserved(c, le(c.raw, 2, 2))
    if exactly(c, 48) then rest(c, "cookie", 16, 32) end
end
handshake[10] = function(c)
    exactly(c, 16)
    c.t:add_le(f.versions, c.seg(2, 2))
    local versions = le(c.raw, 2, 2)
    if versions == 0 or versions % 2 == 1 then wrong(c, "versions against the format") end
end
handshake[1] = function(c)
    if not needs(c, 320) then return end
    local cookie, noise = c.raw:byte(17), le(c.raw, 2, 2)
    c.t:add(f.syn_number, c.seg(17, 1))
    c.t:add(f.pattern, c.seg(18, 1))
    local t = c.t:add(f.aeads, c.seg(19, 1))
    for _, key in ipairs({ "aes128", "aes256", "chacha", "none", "hardware" }) do t:add(f["aeads." .. key], c.seg(19, 1)) end
    c.t:add_le(f.versions, c.seg(20, 2))
    c.t:add_le(f.secret_id, c.seg(24, 8))
    reserved(c, le(c.raw, 22, 2))
    if cookie ~= 0 and cookie ~= 32 and cookie ~= 48 then wrong(c, "cookie of " .. cookie .. " bytes") return end
    c.cookie = cookie > 0
    if 32 + cookie + noise > c.n then wrong(c, "Noise message beyond the end of the packet") return end
    rest(c, "cookie", 32, cookie)
    rest(c, "noise", 32 + cookie, noise)
    say(c, PATTERNS[c.raw:byte(19)] or "unknown pattern")
end
handshake[3] = function(c)
    local noise = le(c.raw, 2, 2)
    if not exactly(c, 24 + noise) then return end
    c.t:add(f.syn_number, c.seg(16, 1))
    rest(c, "noise", 24, noise)
end
handshake[11] = function(c)
    local noise = le(c.raw, 2, 2)
    if exactly(c, 16 + noise) then rest(c, "noise", 16, noise) end
end
handshake[13] = function(c)
    reserved(c, le(c.raw, 2, 6))
    if exactly(c, 32) then rest(c, "token", 16, 16) end
    c.t:add_proto_expert_info(e.ended, "RESET: the peer does not know the connection")
end
handshake[15] = function(c)
    local hello = le(c.raw, 2, 2)
    if not exactly(c, 32 + hello) then return end
    if hello < 16 then wrong(c, "Hello without a tag") end
    c.t:add_le(f.association, c.seg(16, 8))
    c.t:add_le(f["association.number"], c.seg(24, 8))
    rest(c, "encrypted", 32, hello)
    say(c, "number=" .. tostring(c.seg(24, 8):le_uint64()))
end
handshake[14] = function(c)
    exactly(c, 16)
    local reason = le(c.raw, 2, 2)
    c.t:add_le(f.reason, c.seg(2, 2)):add_proto_expert_info(e.ended, "REFUSE: " .. (REASONS[reason] or "other"))
    say(c, REASONS[reason] or ("reason " .. reason))
end

-- Sealed packets: least length, whether it is the only one, and bits of the header that may be set.
local SEALED = {
    [4] = { 40, false, 0xFFFF }, [5] = { 48, true, 3 }, [6] = { 47, false, 3 }, [7] = { 40, false, 11 }, [8] = { 41, true, 3 },
    [9] = { 38, false, 3 }, [12] = { 41, true, 3 },
}
-- Bodies of packets without encryption, from offset 16 up to `stop`.
local plain = {}
plain[4] = function(c, stop)
    c.number, c.offset = le(c.raw, 4, 4), c.seg(16, 8):le_uint64():tonumber()
    c.t:add_le(f.seq, c.seg(16, 8))
    say(c, "seq=" .. tostring(c.seg(16, 8):le_uint64()))
    local at = c.has_ack and native_ack(c, 24, stop) or 24
    c.length = stop - at
    c.t:add(f.length, c.length):set_generated()
    if c.length > 0 then c.t:add(f.payload, c.seg(at, c.length)) end
    say(c, "len=" .. c.length)
end
plain[5] = function(c) rest(c, "token", 16, 16) end
plain[6] = function(c, stop)
    local at = native_ack(c, 16, stop)
    if at and at ~= stop then wrong(c, "bytes after the ACK") end
end
plain[7] = function(c, stop)
    c.number = le(c.raw, 4, 4)
    c.t:add_le(f.stream_length, c.seg(16, 8))
    say(c, "length=" .. tostring(c.seg(16, 8):le_uint64()))
    local at = c.has_ack and native_ack(c, 24, stop) or 24
    if at ~= stop then wrong(c, "bytes after the FIN") end
end
plain[8] = function(c)
    c.t:add_le(f.stream_length, c.seg(16, 8))
    reserved(c, c.raw:byte(25))
end
plain[9] = function(c, stop)
    local reason = le(c.raw, 16, 2)
    local item = c.t:add_le(f.reason, c.seg(16, 2))
    item:add_proto_expert_info(e.ended, "CLOSE: " .. (REASONS[reason] or "other"))
    c.t:add_le(f.code, c.seg(18, 4))
    rest(c, "text", 22, stop - 22)
    say(c, REASONS[reason] or ("reason " .. reason))
end
plain[12] = function(c)
    c.t:add(f["path.response"], c.seg(16, 1))
    c.t:add_le(f["path.random"], c.seg(17, 8))
end

local function sealed(c)
    local rule, flags = SEALED[c.kind], le(c.raw, 2, 2)
    c.t:add(f.key_phase, c.seg(2, 2), flags % 4)
    if c.kind == 4 then
        c.t:add(f.ack_at_once, c.seg(2, 2), band(flags, 4) ~= 0)
        c.t:add(f.ack_every, c.seg(2, 2), math.floor(flags / 16))
    end
    if c.kind == 4 or c.kind == 7 then
        c.has_ack = band(flags, 8) ~= 0
        c.t:add(f.has_ack, c.seg(2, 2), c.has_ack)
    end
    reserved(c, band(flags, 0xFFFF - rule[3]))
    c.t:add_le(f.packet_number, c.seg(4, 4))
    say(c, "number=" .. le(c.raw, 4, 4))
    if not needs(c, rule[1]) then return end
    if rule[2] and c.n > rule[1] then wrong(c, "bytes after the packet") end
    if #c.raw == c.n and is_plain(c.raw) then
        show_check(c, c.n - 16, plain_check)
        plain[c.kind](c, c.n - 16)
        return
    end
    say(c, "encrypted=" .. c.n - 32)
    rest(c, "encrypted", 16, c.n - 32)
    if #c.raw == c.n then c.t:add(f.tag, c.seg(c.n - 16, 16)) end
end

-- Packets of the classic format, by flags; the numbers of types are those of the native format.
local CLASSIC = { [0x00] = 4, [0x20] = 1, [0x40] = 6, [0x60] = 3, [0x80] = 7, [0xC0] = 8 }
local classic = {}
classic[1] = function(c)
    if not exactly(c, 28) then return end
    c.t:add_le(f.seq, c.seg(4, 4), UInt64(le(c.raw, 4, 4)))
    for i, key in ipairs({ "rtt", "rate", "loss_forward", "loss_reverse" }) do
        -- Seven digits are what a single-precision number holds: 0.1, not 0.100000001490116.
        local value = tonumber(string.format("%.7g", c.seg(4 + 4 * i, 4):le_float()))
        c.t:add(f["link." .. key], c.seg(4 + 4 * i, 4), value)
    end
    c.t:add(f["link.buffer"], c.seg(24, 4), UInt64(le(c.raw, 24, 4)))
    say(c, string.format("rtt=%g s rate=%g Mbit/s", c.seg(8, 4):le_float(), c.seg(12, 4):le_float() / 1e6))
end
classic[4] = function(c)
    c.number, c.length = le(c.raw, 4, 4), c.n - 8
    c.t:add(f.seq, c.seg(4, 4), UInt64(c.number))
    c.t:add(f.length, c.length):set_generated()
    rest(c, "payload", 8, c.length)
    say(c, "seq=" .. c.number .. " len=" .. c.length)
end
classic[6] = function(c)
    if not exactly(c, 12) then return end
    window(c, 4, 4, UInt64(le(c.raw, 4, 4)), le(c.raw, 4, 4))
    c.expected = le(c.raw, 8, 4)
    c.t:add(f.ack, c.seg(8, 4), UInt64(c.expected))
    say(c, "ack=" .. c.expected)
end
classic[3] = function(c)
    classic[6](c)
    c.expected = nil
end
classic[7] = function(c)
    c.t:add(f.seq, c.seg(4, 4), UInt64(le(c.raw, 4, 4)))
    local aware = c.n >= 12 and #c.raw >= 12 and c.raw:sub(9, 12) == "\x40\xAA\x11\x83"
    if aware then c.t:add(f["fin.ack_aware"], c.seg(8, 4), true) end
    say(c, "seq=" .. le(c.raw, 4, 4))
end
classic[8] = function(c)
    if not exactly(c, 12) then return end
    c.t:add_le(f.crc, c.seg(4, 4))
    c.t:add(f.ack, c.seg(8, 4), UInt64(le(c.raw, 8, 4)))
    say(c, "ack=" .. le(c.raw, 8, 4) .. string.format(" crc=%08X", le(c.raw, 4, 4)))
end

-- Wire format and type of a datagram by its first bytes, or nil.
local function identify(raw)
    if #raw < 8 then return nil end
    local first, second = raw:byte(1, 2)
    if raw:sub(2, 4) == "\xAA\x11\x83" then
        local kind = CLASSIC[first]
        return kind and "classic", kind
    end
    if #raw < 16 then return nil end
    if first == 0xD0 and second == 10 then return "native", 10 end
    if first == 0xD2 and second ~= 10 and (handshake[second] or SEALED[second]) then return "native", second end
    return nil
end

-- First pass: finds the transfer and what the packet is in it.
local function analyse(c, at, now)
    local stream
    if c.wire == "classic" then
        stream = classic_stream(at, c.kind)
    else
        stream = native_stream(at, c.kind, c.id)
    end
    local side, peer = side_of(stream, at)
    local mark = { stream = stream.number, time = now, frame = c.frame }
    if c.wire == "classic" then
        if c.kind == 4 then analyse_classic(side, c.number, c.length, mark) end
        if c.kind == 1 or c.kind == 7 then analyse_repeated(side, c.kind, mark) end
        if c.kind == 6 and c.expected then
            local count = side.acks[c.expected]
            side.acks[c.expected] = (count or 0) + 1
            mark.duplicate_ack = count
            if not count and peer then acknowledge(peer.packets[c.expected - 1], now, 0, mark) end
        end
    else
        if c.kind == 4 and c.number then analyse_native(side, c.number, c.offset, c.length, mark) end
        if c.kind == 7 and c.number then
            local copy = side.packets[c.number]
            mark.duplicate, mark.top = copy and true, side.top or 0
            if not copy then
                analyse_repeated(side, c.kind, mark)
                side.packets[c.number] = mark
            end
        end
        if c.kind == 1 then analyse_repeated(side, c.cookie and "SYN with cookie" or "SYN", mark) end
        if c.largest and peer then acknowledge(peer.packets[c.largest], now, c.delay / 1e6, mark) end
    end
    return mark
end

-- Dissects one datagram; `index` counts those of a frame.
local function dissect(seg, n, pinfo, tree, index)
    local raw = seg:raw()
    local wire, kind = identify(raw)
    local c = { seg = seg, raw = raw, n = n, wire = wire, kind = kind, info = {}, frame = pinfo.number }
    c.t = tree:add(rdt, seg)
    c.t:append_text(", " .. wire .. ", " .. TYPES[kind])
    c.t:add(f.wire, seg(0, 1), wire):set_generated()
    c.t:add(f.type, wire == "classic" and seg(0, 1) or seg(1, 1), kind)
    if wire == "classic" then
        local t = c.t:add(f.flags, seg(0, 1))
        for _, key in ipairs({ "syn", "ack", "fin" }) do t:add(f["flags." .. key], seg(0, 1)) end
        classic[kind](c)
    else
        c.id = tostring(seg(8, 8):le_uint64())
        c.t:add_le(f.connection_id, seg(8, 8))
        if handshake[kind] and kind ~= 13 then show_check(c, 4, native_check) end
        (handshake[kind] or sealed)(c)
    end
    local key = pinfo.number .. "." .. index
    if not marks[key] then marks[key] = analyse(c, place(pinfo), pinfo.rel_ts) end
    local mark = marks[key]
    c.t:add(f.stream, mark.stream):set_generated()
    show_marks(c.t, mark)
    local text = TYPES[kind]
    if mark.retransmission then text = "[retransmission] " .. text end
    if mark.duplicate then text = "[duplicate] " .. text end
    if mark.keep_alive then text = "[keep-alive] " .. text end
    if mark.duplicate_ack then text = "[duplicate ACK " .. mark.duplicate_ack .. "] " .. text end
    return text .. (#c.info > 0 and " " .. table.concat(c.info, " ") or ""), wire
end

-- Size of the datagrams that the sender's host has joined in one frame (UDP segmentation offload): all have the
-- size of the first, the last may be shorter. Returns nil for a single datagram.
local function segment_size(raw)
    local wire, kind = identify(raw)
    local classic_wire = wire == "classic"
    local mark = classic_wire and "\xAA\x11\x83" or raw:sub(9, 16)
    local offset = classic_wire and 1 or 8
    local from = offset + #mark + 1
    while true do
        local found = raw:find(mark, from, true)
        if not found then return nil end
        local size, fits = found - 1 - offset, true
        for start = size, #raw - 1, size do
            local other, other_kind = identify(raw:sub(start + 1, start + 16))
            fits = fits and other == wire and raw:sub(start + offset + 1, start + offset + #mark) == mark
                and (not classic_wire or other_kind == kind)
        end
        -- Payload may look like a packet, such as a capture of rdt that is sent: demand a second sign.
        if classic_wire then
            fits = fits and (#raw > 1472 or kind == 6 or le(raw, size + 4, 4) == le(raw, 4, 4) + 1)
        else
            fits = fits and SEALED[kind] and size >= SEALED[kind][1] and (not is_plain(raw) or is_plain(raw:sub(1, size)))
        end
        if fits then return size end
        from = found + 1
    end
end

function rdt.dissector(buffer, pinfo, tree)
    local raw = buffer:raw()
    local wire = identify(raw)
    if not wire then return 0 end
    local whole = buffer:reported_len()
    local size = #raw == whole and segment_size(raw) or #raw
    local texts, index = {}, 0
    for start = 0, #raw - 1, size do
        local length = math.min(size, #raw - start)
        local text
        text, wire = dissect(buffer(start, length), size == #raw and whole or length, pinfo, tree, index)
        index = index + 1
        if index <= 4 then texts[index] = text end
    end
    if index > 1 then tree:add(f.segments, buffer(), index):set_generated() end
    if index > 4 then texts[5] = "... " .. index .. " datagrams" end
    pinfo.cols.protocol = wire == "classic" and "RDT" or "RDT native"
    pinfo.cols.info = table.concat(texts, " | ")
    return whole
end

-- On other ports: the magic of the classic format, a native packet with a right check, or an encrypted packet for an
-- id that was seen before.
rdt:register_heuristic("udp", function(buffer, pinfo, tree)
    local raw = buffer:raw()
    local wire, kind = identify(raw)
    if not wire then return false end
    if wire ~= "classic" then
        local first = raw:sub(1, segment_size(raw) or #raw)
        if SEALED[kind] or kind == 13 then
            local known = pairs_known[place(pinfo).pair] or ids[tostring(buffer(8, 8):le_uint64())]
            local checked = SEALED[kind] and is_plain(first) and plain_check(first) == le(first, #first - 16, 4)
            if not known and not checked then return false end
        elseif native_check(first) ~= le(raw, 4, 4) then
            return false
        end
    end
    rdt.dissector(buffer, pinfo, tree)
    pinfo.conversation = rdt
    return true
end)

-- Default ports of rdt-recv and rdt-tunnel.
local ports = DissectorTable.get("udp.port")
ports:add(22345, rdt)
ports:add(22346, rdt)
