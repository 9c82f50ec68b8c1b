package sandboxdocker

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// boxBits is the size of a box's network: a /28 has 13 addresses beside the
// gateway's. The engine's own pools end after some thirty networks.
const boxBits = 28

// defaultPools are tried in turn; each holds 1024 boxes. They lie beside what
// the engine and home routers hand out.
var defaultPools = []netip.Prefix{
	netip.MustParsePrefix("10.213.0.0/18"),
	netip.MustParsePrefix("10.89.64.0/18"),
	netip.MustParsePrefix("172.30.128.0/18"),
	netip.MustParsePrefix("192.168.128.0/18"),
}

// errNoSubnet tells that no pool has room.
var errNoSubnet = errors.New("no free range of addresses; set box.networkPool to one that this machine does not use, such as 10.64.0.0/18")

// networkTries bounds how often a create that loses the race for a subnet
// picks another.
const networkTries = 8

// createNetwork makes a network of its own, with addresses that neither a
// docker network nor a route of the host uses.
func (p *Provider) createNetwork(ctx context.Context, name, seed string, labels map[string]string) error {
	var refused []netip.Prefix
	for range networkTries {
		subnet, err := p.freeSubnet(ctx, seed, refused)
		if err != nil {
			return fmt.Errorf("create network %s: %w", name, err)
		}
		_, err = p.engine.CreateNetwork(ctx, name, subnet, labels)
		if !errors.Is(err, engine.ErrSubnetTaken) {
			return err
		}
		refused = append(refused, subnet)
	}
	return fmt.Errorf("create network %s: the engine refused %v: %w", name, refused, errNoSubnet)
}

func (p *Provider) freeSubnet(ctx context.Context, seed string, refused []netip.Prefix) (netip.Prefix, error) {
	networks, err := p.engine.Networks(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	var docker []netip.Prefix
	for _, n := range networks {
		docker = append(docker, n.Subnets...)
	}
	routes, err := hostRoutes()
	if err != nil {
		return netip.Prefix{}, err
	}
	// A docker network has a route too, but says itself what it uses.
	routes = slices.DeleteFunc(routes, func(r netip.Prefix) bool { return overlapsAny(r, docker) })
	pools := defaultPools
	if p.opts.NetworkPool.IsValid() {
		pools = []netip.Prefix{p.opts.NetworkPool.Masked()}
	} else {
		pools = slices.DeleteFunc(slices.Clone(pools), func(pool netip.Prefix) bool { return overlapsAny(pool, routes) })
	}
	return pick(pools, slices.Concat(docker, routes, refused), seed)
}

// pick finds a free box network in the first pool that has one. The search
// starts at a place that the seed decides, so that creates at the same time
// rarely meet.
func pick(pools, taken []netip.Prefix, seed string) (netip.Prefix, error) {
	hash := fnv.New32a()
	hash.Write([]byte(seed)) //nolint:errcheck // a hash takes everything
	for _, pool := range pools {
		if pool.Bits() > boxBits || !pool.Addr().Is4() {
			continue
		}
		count := uint32(1) << (boxBits - pool.Bits())
		first := pool.Masked().Addr().As4()
		start := hash.Sum32() % count
		for i := range count {
			var raw [4]byte
			block := (start + i) % count
			binary.BigEndian.PutUint32(raw[:], binary.BigEndian.Uint32(first[:])+block<<(32-boxBits))
			if subnet := netip.PrefixFrom(netip.AddrFrom4(raw), boxBits); !overlapsAny(subnet, taken) {
				return subnet, nil
			}
		}
	}
	return netip.Prefix{}, errNoSubnet
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, p.Overlaps)
}

// hostRoutes lists where the host sends packets on purpose: its interfaces'
// networks, and on Linux its IPv4 routes, such as a VPN's. The default route,
// and the halves of it that some VPNs use instead, mean "anywhere".
func hostRoutes() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the host's addresses: %w", err)
	}
	var routes []netip.Prefix
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			routes = append(routes, p.Masked())
		}
	}
	table, err := os.Open("/proc/net/route")
	if errors.Is(err, os.ErrNotExist) {
		return routes, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the host's routes: %w", err)
	}
	defer table.Close()
	more, err := parseRoutes(table)
	return append(routes, more...), err
}

// parseRoutes reads the format of /proc/net/route: a head line, then one route
// a line, with destination and mask as hex numbers in host byte order.
func parseRoutes(r io.Reader) ([]netip.Prefix, error) {
	var routes []netip.Prefix
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 8 || fields[0] == "Iface" {
			continue
		}
		destination, err1 := littleEndian(fields[1])
		mask, err2 := littleEndian(fields[7])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read the host's route %q: %w", lines.Text(), err)
		}
		ones := bits.LeadingZeros32(^binary.BigEndian.Uint32(mask[:]))
		if ones > 1 {
			routes = append(routes, netip.PrefixFrom(netip.AddrFrom4(destination), ones).Masked())
		}
	}
	return routes, lines.Err()
}

// littleEndian reads eight hex digits. All machines that boxes run on are
// little-endian.
func littleEndian(digits string) ([4]byte, error) {
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != 4 {
		return [4]byte{}, fmt.Errorf("%q is no 32-bit hex number", digits)
	}
	return [4]byte{raw[3], raw[2], raw[1], raw[0]}, nil
}
