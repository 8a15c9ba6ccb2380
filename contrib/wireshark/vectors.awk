# Prints the packets among the vectors of docs/CLASSIC.md and docs/PROTOCOL.md for text2pcap -D; with -v names=1 their names instead.
# Spaces have no meaning there, `;` begins a comment, "(72 zeros)" stands for bytes. Section 1 has comments without `;`.
/^#/ { section = $2; sub(/\.$/, "", section) }
/^```/ { flush(); inside = !inside && section ~ /^(1|N9)$/; next }
inside {
    sub(/;.*/, "")
    if ($0 ~ /^[A-Za-z]/) {
        flush()
        name = $1
        sub(/^[^ ]+ +/, "")
    }
    if (section == "1") sub(/   .*/, "")
    while (match($0, /\([0-9]+ zeros\)/)) {
        zeros = sprintf("%*s", 2 * substr($0, RSTART + 1), "")
        gsub(/ /, "0", zeros)
        $0 = substr($0, 1, RSTART - 1) zeros substr($0, RSTART + RLENGTH)
    }
    gsub(/ /, "")
    hex = hex $0
}
function flush() {
    # HELLO, WELCOME and REFUSED are payloads of Noise messages, not packets.
    if (name != "" && name !~ /^(HELLO|WELCOME|REFUSED)/) {
        if (names) print section, name
        else {
            gsub(/../, "& ", hex)
            print (name ~ /^(RETRY|SYN-ACK|ACK|FIN-ACK|REFUSE|RESET|VERSIONS|OPEN-ACK)/ ? "I" : "O") "\n000000 " hex
        }
    }
    name = hex = ""
}
