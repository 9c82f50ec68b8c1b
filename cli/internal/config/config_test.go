package config

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
)

func TestLoad(t *testing.T) {
	cases := []struct {
		what, file string
		want       []policy.Class
		image      string
		pool       string
		warnings   []string
		bad        bool
	}{
		{what: "an empty file", file: ""},
		{what: "the classes", file: "approvals:\n  unattended: [push-branch, push-tag]\n", want: []policy.Class{policy.PushBranch, policy.PushTag}},
		{what: "a section without keys", file: "approvals:\n"},
		{
			what: "keys of a later version", file: "box:\n  nextYearKey: 1\napprovals:\n  color: red\nnew: {a: 1}\n",
			warnings: []string{`unknown key "approvals.color" in config.yaml`, `unknown key "box.nextYearKey" in config.yaml`, `unknown key "new" in config.yaml`},
		},
		{what: "an image", file: "box:\n  image: lean\n", image: "lean"},
		{what: "an image of the user's", file: "box: {image: 'host:5000/mine@sha256:ab'}\n", image: "host:5000/mine@sha256:ab"},
		{what: "a list as image", file: "box:\n  image: [lean]\n", bad: true},
		{what: "two words as image", file: "box:\n  image: lean full\n", bad: true},
		{what: "an empty image", file: "box:\n  image: ''\n", bad: true},
		{what: "a pool of networks", file: "box: {networkPool: 10.64.1.2/18}\n", pool: "10.64.0.0/18"},
		{what: "a pool without room", file: "box: {networkPool: 10.64.0.0/29}\n", bad: true},
		{what: "a pool of IPv6", file: "box: {networkPool: 'fd00::/18'}\n", bad: true},
		{what: "an address as pool", file: "box: {networkPool: 10.64.0.0}\n", bad: true},
		{what: "a number as pool", file: "box: {networkPool: 10}\n", bad: true},
		{what: "what a person must see", file: "approvals:\n  unattended: [push-default]\n", bad: true},
		{what: "everything", file: "approvals:\n  unattended: true\n", bad: true},
		{what: "a number as class", file: "approvals:\n  unattended: [1]\n", bad: true},
		{what: "a word as section", file: "approvals: off\n", bad: true},
		{what: "a budget of everything", file: "landing:\n  budget: unlimited\n", bad: true},
		{what: "a budget of nothing", file: "landing:\n  budget: 0GB\n", bad: true},
		{what: "a pack without a unit", file: "push:\n  maxPack: 5\n", bad: true},
		{what: "a reserve without a unit", file: "landing:\n  reserve: 5\n", bad: true},
		{what: "no YAML", file: "a: [\n", bad: true},
		{what: "a list as document", file: "- a\n", bad: true},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			home := core.Home(t.TempDir())
			if err := os.WriteFile(Path(home), []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Load(home)
			if tc.bad {
				if !errors.Is(err, core.ErrInvalid) {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err != nil || !slices.Equal(got.Unattended, tc.want) || got.Image != tc.image || got.NetworkPool.IsValid() != (tc.pool != "") || tc.pool != "" && got.NetworkPool.String() != tc.pool || !slices.Equal(got.Warnings, tc.warnings) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	if got, err := Load(core.Home(t.TempDir())); err != nil || got.Unattended != nil || !got.AutoApproveSafe || got.AutoApprove {
		t.Errorf("no file: %+v, %v", got, err)
	}
}

func TestTheUsersWordOnQuestions(t *testing.T) {
	for file, want := range map[string]Config{
		"box: {autoApproveHostActions: true}":                                 {AutoApprove: true, AutoApproveSafe: true},
		"box: {autoApproveSafeHostActions: false}\napprovals: {timeout: 90m}": {ApprovalTimeout: 90 * time.Minute},
		"box: {autoApproveSafeHostActions:}\napprovals:":                      {AutoApproveSafe: true},
	} {
		got, err := parse([]byte(file))
		if err != nil || got.AutoApprove != want.AutoApprove || got.AutoApproveSafe != want.AutoApproveSafe || got.ApprovalTimeout != want.ApprovalTimeout {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
	for _, file := range []string{"box: {autoApproveHostActions: yes please}", "approvals: {timeout: 5}", "approvals: {timeout: 5s}", "approvals: soon", "approvals: {timeout: 9999h}"} {
		if got, err := parse([]byte(file)); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
}

func TestAutopause(t *testing.T) {
	for file, want := range map[string]Config{
		"": {Autopause: true, MaxRunningBoxes: 5, IdleBefore: 5 * time.Minute},
		"autopause: {enabled: false, maxRunningBoxes: 2, idleMinutes: 15}": {MaxRunningBoxes: 2, IdleBefore: 15 * time.Minute},
	} {
		got, err := parse([]byte(file))
		if err != nil || got.Autopause != want.Autopause || got.MaxRunningBoxes != want.MaxRunningBoxes || got.IdleBefore != want.IdleBefore {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
	for _, file := range []string{"autopause: {maxRunningBoxes: 0}", "autopause: {maxRunningBoxes: -1}", "autopause: {idleMinutes: 1.5}", "autopause: {idleMinutes: 5m}", "autopause: {enabled: 1}"} {
		if got, err := parse([]byte(file)); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("approvals:\n  unattended: [push-branch]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			return
		}
		for _, class := range c.Unattended {
			if !slices.Contains(policy.Classes, class) {
				t.Errorf("class %q got in", class)
			}
		}
	})
}

func TestSizes(t *testing.T) {
	c, err := parse([]byte("landing:\n  budget: 3GB\n  reserve: 500 MB\npush:\n  maxPack: 1GB\n"))
	if err != nil || c.MaxPack != 1<<30 || c.LandingBudget != 3<<30 || c.DiskReserve != 500<<20 || len(c.Warnings) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
