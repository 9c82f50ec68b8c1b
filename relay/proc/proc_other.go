//go:build !linux

package proc

import "context"

func started(int) (string, error) { return "", ErrUnsupported }

func end(context.Context, int, string) error { return ErrUnsupported }

func bound(int, Bounds) error { return nil }
