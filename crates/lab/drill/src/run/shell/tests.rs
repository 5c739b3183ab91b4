//! Goal: sysctls are found however they are written, and what cannot be done is told.
use super::*;

#[test]
fn sysctls_are_found_and_the_rest_is_told() {
    let text = "#!/bin/bash\n# a comment\nsysctl -q net.ipv4.tcp_rmem=\"4096 540000 $((15*1024*1024))\"\n\
                    ../x/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 \\\n /proc/sys/net/ipv4/tcp_sack=1\n\
                    sysctl -w net.inet.tcp.sack.enable=1 > /dev/null 2>&1; ip tcp_metrics flush all\n\
                    sysctl net.inet.tcp.hostcache.purgenow=1\n\
                    ip route change default via 10.0.0.1 rto_min 40ms initcwnd 20 mtu lock 1400 advmss 1360\n\
                    ip route change default via 10.0.0.1 advmss 500\n\
                    ethtool -K tun0 gso off tso on; ethtool -K tun0 tso on; ethtool -S tun0\n\
                    tc qdisc replace dev tun0 root fq\ntc qdisc add dev tun0 root pfifo\ntc qdisc show\n\
                    grep \" 0A \" /proc/net/tcp | grep \":1F90\"\n\
                    grep x y\n./no-such.sh\n/tmp/sysctl_restore_${PPID}.sh";
    let sysctl = |name: &str, value: &str| Grant::Sysctl(name.into(), value.into());
    let expected = [
        sysctl("net.ipv4.tcp_rmem", "4096 540000 15728640"),
        sysctl("net.ipv4.tcp_timestamps", "0"),
        sysctl("net.ipv4.tcp_sack", "1"),
        sysctl("net.inet.tcp.sack.enable", "1"),
        Grant::Forget,
        Grant::Forget,
        Grant::Route("rto_min", "40ms".into()),
        Grant::Route("initial_window", "20".into()),
        Grant::Mtu(1400),
        Grant::Unsupported("the route's advmss".into()),
        Grant::Offload(false),
        Grant::Offload(true),
        Grant::Pacing(true),
        Grant::Pacing(false),
        Grant::Listed(10, 8080),
        Grant::Unsupported("the command grep".into()),
        Grant::Unsupported("the script no-such.sh, which cannot be read".into()),
    ];
    assert_eq!(read(text, Path::new("/")), expected);
}
