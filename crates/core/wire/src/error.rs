//! Why a packet was refused: one table for every parser, so that every drop has a name.

base::names! {
    /// Why a parser refused its input. The receive path counts each by name.
    pub enum ParseError {
        LinkTruncated: "link-truncated", "Shorter than an Ethernet header.",
        UnknownEthertype: "unknown-ethertype", "Neither IPv4, IPv6 nor ARP.",
        ArpMalformed: "arp-malformed", "Not an Ethernet-to-IPv4 ARP packet, or too short.",
        IpTruncated: "ip-truncated", "Shorter than its IP header.",
        IpVersion: "ip-version", "The IP version is neither 4 nor 6, or not what the link said.",
        IpHeaderLength: "ip-header-length", "IHL below 5, or longer than the packet.",
        IpTotalLength: "ip-total-length", "The IP length field does not fit the frame.",
        IpChecksum: "ip-checksum", "The IPv4 header checksum is wrong.",
        IpFragment: "ip-fragment", "A fragment; TCP avoids them by path MTU discovery.",
        IpAddress: "ip-address", "A source address that may not stand on the wire.",
        ExtensionMalformed: "ipv6-extension", "An IPv6 extension header is cut off or misplaced.",
        ExtensionOption: "ipv6-option", "An IPv6 option that must not be ignored and is not known.",
        ExtensionCount: "ipv6-extensions-many", "More IPv6 extension headers than we walk.",
        RoutingHeader: "ipv6-routing", "An IPv6 routing header with segments left: we are no router.",
        TcpTruncated: "tcp-truncated", "Shorter than a TCP header.",
        TcpDataOffset: "tcp-data-offset", "The TCP data offset is below 5 or beyond the segment.",
        TcpChecksum: "tcp-checksum", "The TCP checksum is wrong.",
        IcmpTruncated: "icmp-truncated", "Shorter than an ICMP header.",
        IcmpChecksum: "icmp-checksum", "The ICMP checksum is wrong.",
        IcmpQuote: "icmp-quote", "The packet quoted by an ICMP error cannot be identified.",
        NdMalformed: "nd-malformed", "A Neighbour Discovery message that RFC 4861 says to discard.",
        VirtioMalformed: "virtio-malformed", "A virtio-net header that does not fit its packet.",
        CaptureMalformed: "capture-malformed", "Not a capture file we read, or a damaged one.",
    }
}
