package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "modproxy:", err)
		os.Exit(1)
	}
}

type options struct {
	root, out                                string
	vcs, writeSums, stripSums, writeWork, ls bool
}

func run(args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("modproxy", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "folder of the workspace, the top of its git repository")
	flags.StringVar(&o.out, "out", "", "folder of the proxy to write")
	flags.BoolVar(&o.vcs, "vcs", false, "pack HEAD instead of the tree; sibling sums must then fit")
	flags.BoolVar(&o.writeSums, "write-sums", false, "write the siblings' sums into every go.sum, for a release")
	flags.BoolVar(&o.stripSums, "strip-sums", false, "remove the siblings' sums from every go.sum")
	flags.BoolVar(&o.writeWork, "write-work", false, "write the replace lines of go.work that the go.mod files need")
	flags.BoolVar(&o.ls, "versions", false, "print folder, module and version of what would be packed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.writeSums && (o.stripSums || o.vcs) {
		return fmt.Errorf("-write-sums goes with neither -strip-sums nor -vcs")
	}
	return o.run(stdout)
}

func (o options) run(stdout io.Writer) error {
	ws, err := load(o.root)
	if err != nil {
		return err
	}
	if o.writeWork {
		if err := ws.writeWork(); err != nil {
			return err
		}
	}
	if err := ws.checkWork(); err != nil {
		return err
	}
	if o.stripSums {
		if err := ws.stripSums(); err != nil {
			return err
		}
	}
	if o.ls {
		for _, m := range ws.modules {
			if v := m.latest(); v != "" {
				fmt.Fprintln(stdout, m.folder, m.path, v)
			}
		}
	}
	if o.out == "" && !o.writeSums {
		return nil
	}
	return ws.pack(o)
}
