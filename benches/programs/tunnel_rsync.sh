#!/usr/bin/env bash
# Time of rsync across an emulated path: through rdt-tunnel, and over the kernel's TCP with CUBIC.
# Both to an rsync daemon, and with `ssh` over sshd. Prints a Markdown table of medians.
#
#   cargo build --release -p rdt-emu -p rdt-tunnel
#   benches/programs/tunnel_rsync.sh [ROUNDS [daemon|ssh]]     (as root; needs rsync, sshd, iproute2)
#
# Kernel TCP gets a smaller file and its rate counts, because 100 MB would take ten minutes.
set -euo pipefail

rounds=${1:-3} kind=${2:-daemon}
programs=$(cd "$(dirname "$0")/../.." && pwd)/target/release
path=(--rtt 100ms --rate 100mbit --loss 1%)
tunnel_bytes=100000000 tcp_bytes=5000000
export LC_ALL=C

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir -p "$home/copies" /run/sshd
head -c "$tunnel_bytes" /dev/urandom > "$home/tunnel"
head -c "$tcp_bytes" /dev/urandom > "$home/tcp"

case $kind in
daemon)
    port=873
    printf '%s\n' "use chroot = no" "uid = 0" "gid = 0" "[files]" "path = $home/copies" "read only = no" > "$home/config"
    daemon="rsync --daemon --no-detach --config=$home/config --log-file=$home/log"
    ;;
ssh)
    port=22
    for name in host user; do ssh-keygen -q -t ed25519 -N "" -f "$home/$name"; done
    printf '%s\n' "HostKey $home/host" "AuthorizedKeysFile $home/user.pub" "StrictModes no" "UsePAM no" "PidFile none" > "$home/config"
    daemon="/usr/sbin/sshd -D -e -f $home/config 2> $home/log"
    ;;
esac

# At the far end: the daemon, and the server of the tunnel.
server="$daemon & XDG_CONFIG_HOME=$home/server exec $programs/rdt-tunnel serve --to 127.0.0.1:$port --listen \$RDT_LOCAL:22346 --open -q"

# At the near end: prints the seconds of one rsync.
cat > "$home/client" <<END
way=\$1 address=\$RDT_PEER port=$port
ip route show | sed 's/.*/ip route change & congctl cubic/' | sh
if [ "\$way" = tunnel ]; then
    export XDG_CONFIG_HOME=$home/near
    coproc tunnel { exec $programs/rdt-tunnel connect "\$RDT_PEER:22346" --listen 127.0.0.1:8730 --json 2>> $home/remarks; }
    read -r listening <&"\${tunnel[0]}"
    address=127.0.0.1 port=8730
fi
case $kind in
daemon) to=rsync://\$address:\$port/files/ shell= ;;
ssh)
    to=\$address:$home/copies/
    shell="ssh -q -p \$port -i $home/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    ;;
esac
begin=\$(date +%s.%N)
timeout 140 rsync --whole-file \${shell:+-e "\$shell"} "$home/\$way" "\$to" >&2
end=\$(date +%s.%N)
echo "\$end - \$begin" | bc -l
if [ "\$way" = tunnel ]; then kill -INT "\$tunnel_PID"; grep closed <&"\${tunnel[0]}" >&2; fi
END

run() {
    rm -f "$home/copies/$1"
    "$programs/rdt-emu" run -q --no-user-namespace --seed "$2" "${path[@]}" --server "$server" -- bash "$home/client" "$1"
    cmp "$home/$1" "$home/copies/$1"
}

for ((round = 1; round <= rounds; round++)); do
    for way in tunnel tcp; do
        run "$way" "$round" | tee -a "$home/$way.seconds" | sed "s/^/round $round, $way, seconds: /" >&2
    done
done

median() { sort -g "$home/$1.seconds" | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
rate() { echo "$1 * 8 / 1000000 / $2" | bc -l; }
tunnel_s=$(median tunnel) tcp_s=$(median tcp)
tunnel_rate=$(rate "$tunnel_bytes" "$tunnel_s") tcp_rate=$(rate "$tcp_bytes" "$tcp_s")
row() {
    printf '| %s | %d | %.2f | %.2f | %.3f | %.1f |\n' "$1" "$2" "$3" "$4" \
        "$(echo "$4 / 100" | bc -l)" "$(echo "$4 / $tcp_rate" | bc -l)"
}
echo "Medians of $rounds rounds of rsync ($kind); path: ${path[*]}"
echo
echo "| way | bytes | seconds | Mbit/s | share of the link | of TCP |"
echo "|---|---|---|---|---|---|"
row "rdt-tunnel" "$tunnel_bytes" "$tunnel_s" "$tunnel_rate"
row "kernel TCP, CUBIC" "$tcp_bytes" "$tcp_s" "$tcp_rate"
