package engine

import (
	"context"
	"net/netip"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// Network is a network of the engine.
type Network struct {
	ID      string
	Name    string
	Subnets []netip.Prefix
}

// Networks lists the networks that have all the given labels ("key" or
// "key=value"), all networks if none is given.
func (e *Engine) Networks(ctx context.Context, labels ...string) ([]Network, error) {
	got, err := e.api.NetworkList(ctx, client.NetworkListOptions{Filters: labelled(labels)})
	if err != nil {
		return nil, e.failed(ctx, "list networks", err)
	}
	all := make([]Network, 0, len(got.Items))
	for _, item := range got.Items {
		n := Network{ID: item.ID, Name: item.Name}
		for _, config := range item.IPAM.Config {
			if config.Subnet.IsValid() {
				n.Subnets = append(n.Subnets, config.Subnet.Masked())
			}
		}
		all = append(all, n)
	}
	return all, nil
}

// CreateNetwork makes a bridge network with these IPv4 addresses. The error
// wraps ErrSubnetTaken when something else uses them.
func (e *Engine) CreateNetwork(ctx context.Context, name string, subnet netip.Prefix, labels map[string]string) (string, error) {
	off := false
	got, err := e.api.NetworkCreate(ctx, name, client.NetworkCreateOptions{
		Driver:     "bridge",
		EnableIPv6: &off,
		IPAM:       &network.IPAM{Driver: "default", Config: []network.IPAMConfig{{Subnet: subnet}}},
		Labels:     labels,
	})
	if err != nil {
		return "", e.failed(ctx, "create network "+name, err)
	}
	return got.ID, nil
}

// RemoveNetwork removes a network. The error wraps ErrNotFound if it is gone.
func (e *Engine) RemoveNetwork(ctx context.Context, id string) error {
	_, err := e.api.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	return e.failed(ctx, "remove network "+id, err)
}

func labelled(labels []string) client.Filters {
	if len(labels) == 0 {
		return nil
	}
	return make(client.Filters).Add("label", labels...)
}
