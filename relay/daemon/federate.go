package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/remote"
)

// federate pushes the laptop's state up to the user's plane, if there is one,
// until it is told to end. A plane that can't be used keeps no relay from
// serving.
func federate(ctx context.Context, cfg Config, st store.Store) (end func()) {
	if cfg.PlaneURL == "" {
		return func() {}
	}
	up, err := plane(cfg)
	if err != nil {
		cfg.Log.Error("the plane gets nothing", "err", err)
		return func() {}
	}
	return beside(ctx, func(ctx context.Context) {
		f := remote.Follower{Local: st, Up: up, File: cfg.Home.PlaneCursor(), Log: cfg.Log}
		if err := f.Run(ctx); err != nil {
			cfg.Log.Error("the plane gets nothing", "err", err)
		}
	})
}

// plane reads the laptop's own bearer, which opens nothing but the routes that
// push up.
func plane(cfg Config) (*remote.Store, error) {
	info, err := os.Stat(cfg.Home.PlaneToken())
	if err != nil {
		return nil, fmt.Errorf("read the laptop's token for %s: %w", cfg.PlaneURL, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", cfg.Home.PlaneToken())
	}
	token, err := os.ReadFile(cfg.Home.PlaneToken())
	if err != nil {
		return nil, fmt.Errorf("read the laptop's token for %s: %w", cfg.PlaneURL, err)
	}
	return remote.New(remote.Config{URL: cfg.PlaneURL, Token: strings.TrimSpace(string(token))})
}
