package provider

import "context"

// ImageState tells whether a box image is there.
type ImageState string

const (
	// ImageFresh is this version's; a create uses it.
	ImageFresh ImageState = "fresh"
	// ImageStale is another version's; a create makes it anew.
	ImageStale ImageState = "stale"
	// ImageMissing says that there is none; a create makes it.
	ImageMissing ImageState = "missing"
)

// ImageStatus is what a provider has of one box image.
type ImageStatus struct {
	// Image is the word that names it in a CreateRequest.
	Image string     `json:"image"`
	State ImageState `json:"state"`
	// Ref and ID are the provider's names for it; ID is empty if it is missing.
	Ref string `json:"ref"`
	ID  string `json:"id"`
	// Was identifies what is there and Now what this version needs.
	Was string `json:"was"`
	Now string `json:"now"`
}

// PrepareRequest asks for a box image ahead of a create.
type PrepareRequest struct {
	// Image as in CreateRequest.
	Image string
	// Build makes the image here, even if it could be had ready-made.
	Build bool
	// Step as in CreateRequest.
	Step func(name string) (done func(error))
}

// Preparer is implemented by providers whose boxes come from an image that
// takes long to get.
type Preparer interface {
	// Prepare makes sure of the image, as the next create would, and returns
	// its status. The error wraps ErrNoImage when there is none in the end.
	Prepare(ctx context.Context, req PrepareRequest) (ImageStatus, error)
	// Images tells of every image that can be prepared what a create would
	// find, and changes nothing.
	Images(ctx context.Context) ([]ImageStatus, error)
}
