#!/usr/bin/env bash
# rdt-copy, rsync and scp by ssh across an emulated path: one large file, and many small ones.
# Prints a Markdown table of rates and of the bytes that crossed the link towards the destination.
#
#   cargo build --release -p rdt-emu -p rdt-copy
#   benches/programs/copy.sh [LARGE_MB [SMALL_FILES [ROUNDS]]]     (as root; needs rsync, sshd, iproute2)
#
# Kernel TCP (rsync, scp) uses CUBIC, and gets LARGE_MB / 10 of data, because its rate on a path with
# loss is low: its rates count, not its times.
set -euo pipefail

large_mb=${1:-100} small_files=${2:-2000} rounds=${3:-1}
programs=$(cd "$(dirname "$0")/../.." && pwd)/target/release
path=(--rtt 100ms --rate 100mbit --loss 1%)
export LC_ALL=C

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir -p "$home/copies" /run/sshd
for name in host user; do ssh-keygen -q -t ed25519 -N "" -f "$home/$name"; done
printf '%s\n' "HostKey $home/host" "AuthorizedKeysFile $home/user.pub" "StrictModes no" "UsePAM no" "PidFile none" "Subsystem sftp internal-sftp" > "$home/config"

# Sources: NAME/large and NAME/small for each program.
make() {
    mkdir -p "$home/$1/large" "$home/$1/small"
    head -c "$(($2 * 1000000))" /dev/urandom > "$home/$1/large/file"
    for ((i = 0; i < $3; i++)); do head -c 4096 /dev/urandom > "$home/$1/small/$i"; done
}
make rdt-copy "$large_mb" "$small_files"
make tcp "$((large_mb / 10))" "$((small_files / 10))"

cat > "$home/client" <<END
program=\$1 what=\$2
ip route show | sed 's/.*/ip route change & congctl cubic/' | sh
ssh="ssh -q -i $home/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
to=root@\$RDT_PEER:$home/copies
sent() { cat /sys/class/net/*/statistics/tx_bytes | awk '{ sum += \$1 } END { print sum }'; }
before=\$(sent) begin=\$(date +%s.%N)
case \$program in
rdt-copy) $programs/rdt-copy -q -e "\$ssh" --remote-program $programs/rdt-copy "$home/rdt-copy/\$what" "\$to" ;;
rsync) timeout 500 rsync -a --whole-file -e "\$ssh" "$home/tcp/\$what" "\$to" ;;
scp) timeout 500 scp -q -r -p -S "$home/scp-ssh" "$home/tcp/\$what" "\$to" ;;
esac >&2
end=\$(date +%s.%N)
echo "\$(echo "\$end - \$begin" | bc -l) \$((\$(sent) - before))"
END
printf '%s\n' '#!/bin/sh' "exec ssh -q -i $home/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \"\$@\"" > "$home/scp-ssh"
chmod +x "$home/scp-ssh"

run() {
    rm -rf "$home/copies/$2"
    "$programs/rdt-emu" run -q --no-user-namespace --seed "$3" "${path[@]}" \
        --server "/usr/sbin/sshd -D -e -f $home/config 2> $home/log" -- bash "$home/client" "$1" "$2"
    diff -r "$home/$([ "$1" = rdt-copy ] && echo rdt-copy || echo tcp)/$2" "$home/copies/$2" >&2
}

median() { sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

echo "Medians of $rounds rounds; path: ${path[*]}"
echo
echo "| program | what | bytes of files | seconds | Mbit/s | bytes sent / bytes of files |"
echo "|---|---|---|---|---|---|"
for what in large small; do
    for program in rdt-copy rsync scp; do
        source=$home/$([ "$program" = rdt-copy ] && echo rdt-copy || echo tcp)/$what
        bytes=$(find "$source" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
        for ((round = 1; round <= rounds; round++)); do
            run "$program" "$what" "$round" >> "$home/$program.$what"
        done
        seconds=$(cut -d' ' -f1 "$home/$program.$what" | median) sent=$(cut -d' ' -f2 "$home/$program.$what" | median)
        files=$(find "$source" -type f | wc -l)
        printf '| %s | %d x %d bytes | %d | %.2f | %.2f | %.3f |\n' "$program" "$files" "$((bytes / files))" "$bytes" \
            "$seconds" "$(echo "$bytes * 8 / 1000000 / $seconds" | bc -l)" "$(echo "$sent / $bytes" | bc -l)"
    done
done
