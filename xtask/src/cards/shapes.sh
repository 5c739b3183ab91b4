# Functions for a guest: serve over a shape of interface in namespace `s`, ask from namespace `c`.
ms=@MILLSTREAM@
clean() { ip netns del s 2>/dev/null; ip netns del c 2>/dev/null; }
begin() { clean; ip netns add s; ip netns add c; ip -n s link set lo up; ip -n c link set lo up; }
# cable NUMBER MTU: x0 in s to y0 in c.
cable() {
    ip -n s link add x$1 mtu $2 type veth peer name y$1 mtu $2 netns c
    ip -n s link set x$1 up; ip -n c link set y$1 up
}
ends() {
    ip -n s addr add 10.5.0.1/24 dev $1; ip -n s addr add fd05::1/64 dev $1 nodad; ip -n s link set $1 up
    ip -n c addr add 10.5.0.2/24 dev $2; ip -n c addr add fd05::2/64 dev $2 nodad; ip -n c link set $2 up
}
get() { ip netns exec c curl -gsS -m 30 -w '%{size_download} ' -o /run/got http://10.5.0.1/300000 -o /run/got 'http://[fd05::1]/300000' 2>&1; }
# try LINK REFUSAL: with a refusal the program must end with these words. `during` happens between two requests.
try() {
    ip netns exec s $ms serve --link $1 --listen [::]:80 >/run/shape.log 2>&1 & pid=$!
    for i in $(seq 200); do grep -q ^serving /run/shape.log && break; kill -0 $pid 2>/dev/null || break; sleep 0.2; done
    words=$(grep -v ^serving /run/shape.log | head -1)
    if [ -n "$2" ]; then
        kill $pid 2>/dev/null && words="it runs"; wait $pid
        case "$words" in *"$2"*) echo "refused: $words";; *) echo "dead: $words";; esac
        return
    fi
    for i in $(seq 50); do ip netns exec c ping -c1 -W1 10.5.0.1 >/dev/null && ip netns exec c ping -c1 -W1 fd05::1 >/dev/null && break; done
    first=$(get); during; second=$(get)
    kill $pid; wait $pid; status=$?
    left=$(ip -n s -d link show | grep -o 'xdp[a-z]*')
    if [ "$first$second$status$left" = "300000 300000 300000 300000 0" ]; then
        echo "works: $words"
    else
        echo "dead: $first; $second; status $status; left $left; $(cat /run/shape.log)"
    fi
}
during() { :; }
lose_a_cable() { ip -n s link set x0 down; }
vlan() {
    begin; cable 0 $1
    for end in "s x0" "c y0"; do
        set -- $1 $end; ip -n $2 link add link $3 name $3.10 mtu $1 type vlan id 10
    done
    ends x0.10 y0.10
}
# bond MODE: of two cables, to a bridge.
bond() {
    begin; ip -n s link add bond0 type bond mode $1 miimon 50; ip -n c link add br0 type bridge
    for k in 0 1; do
        cable $k 1500; ip -n s link set x$k down; ip -n s link set x$k master bond0; ip -n s link set x$k up
        ip -n c link set y$k master br0
    done
    ends bond0 br0
}
bridge() { begin; cable 0 1500; ip -n s link add br0 type bridge; ip -n s link set x0 master br0; ends br0 y0; }
