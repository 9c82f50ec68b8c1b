package state

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/madarco/agentbox/core"
)

// ErrNameTaken: the name that was asked for belongs to something else.
var ErrNameTaken = errors.New("the name is taken")

// maxVariants bounds the search for a free name.
const maxVariants = 1000

// Draft says what box to reserve.
type Draft struct {
	// Name is the user's choice. When it is empty the name derives from
	// Folder, with a number where that is taken.
	Name        core.BoxName
	Folder      string
	ProjectRoot string
	Provider    string
	CreatedAt   time.Time
}

// Reserve adds the record of a box that is being created and returns it. The
// name is free here and, as far as takenBy knows, elsewhere: takenBy says what
// holds a name ("container agentbox-app"), or nothing. Run it in Update, so
// that two creates never get the same name, id or index.
func (s *State) Reserve(d Draft, takenBy func(core.BoxName) (string, error)) (core.Box, error) {
	name, err := s.freeName(d, takenBy)
	if err != nil {
		return core.Box{}, err
	}
	box := core.Box{
		ID:           s.freeID(),
		Name:         name,
		Provider:     d.Provider,
		Creating:     true,
		CreatedAt:    d.CreatedAt,
		ProjectRoot:  d.ProjectRoot,
		ProjectIndex: s.nextIndex(d.ProjectRoot),
	}
	s.Boxes = append(s.Boxes, box)
	return box, nil
}

func (s *State) freeName(d Draft, takenBy func(core.BoxName) (string, error)) (core.BoxName, error) {
	holder := func(name core.BoxName) (string, error) {
		if i := slices.IndexFunc(s.Boxes, func(b core.Box) bool { return b.Name == name }); i >= 0 {
			return "box " + s.Boxes[i].ID + " of " + s.Boxes[i].ProjectRoot, nil
		}
		return takenBy(name)
	}
	if d.Name != "" {
		by, err := holder(d.Name)
		if err == nil && by != "" {
			err = fmt.Errorf("name %q: %w by %s", d.Name, ErrNameTaken, by)
		}
		return d.Name, err
	}
	base := core.BoxNameFor(d.Folder)
	for i := 1; i <= maxVariants; i++ {
		name := base.Numbered(i)
		by, err := holder(name)
		if err != nil {
			return "", err
		}
		if by == "" {
			return name, nil
		}
	}
	return "", fmt.Errorf("find a name for %q: %w: %d variants of it are", base, ErrNameTaken, maxVariants)
}

func (s *State) freeID() string {
	for {
		id := core.NewBoxID()
		if _, used := s.Box(id); !used {
			return id
		}
	}
}

// nextIndex is one more than the highest index of a living box of the project.
func (s *State) nextIndex(root string) int {
	highest := 0
	for _, b := range s.Boxes {
		if b.ProjectRoot == root {
			highest = max(highest, b.ProjectIndex)
		}
	}
	return highest + 1
}

// Box finds the record with this id.
func (s *State) Box(id string) (core.Box, bool) {
	if i := s.index(id); i >= 0 {
		return s.Boxes[i], true
	}
	return core.Box{}, false
}

// Put replaces the record with the box's id, and tells whether there was one.
func (s *State) Put(box core.Box) bool {
	i := s.index(box.ID)
	if i >= 0 {
		s.Boxes[i] = box
	}
	return i >= 0
}

// Remove forgets the record with this id, if there is one.
func (s *State) Remove(id string) {
	if i := s.index(id); i >= 0 {
		s.Boxes = slices.Delete(s.Boxes, i, i+1)
	}
}

// Project lists the boxes of one project, by index.
func (s *State) Project(root string) []core.Box {
	var boxes []core.Box
	for _, b := range s.Boxes {
		if b.ProjectRoot == root {
			boxes = append(boxes, b)
		}
	}
	slices.SortStableFunc(boxes, func(a, b core.Box) int { return a.ProjectIndex - b.ProjectIndex })
	return boxes
}

func (s *State) index(id string) int {
	return slices.IndexFunc(s.Boxes, func(b core.Box) bool { return b.ID == id })
}
