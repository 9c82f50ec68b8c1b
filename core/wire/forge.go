package wire

// ForgeParams are the params of gh.pr.<operation>, gh.run.<operation> and gh.api.
type ForgeParams struct {
	Path string   `json:"path,omitempty"`
	Args []string `json:"args,omitempty"`
	// Endpoint is the address of the API, of gh.api alone.
	Endpoint string `json:"endpoint,omitempty"`
	// HostInitiated is understood from older clients and means nothing.
	HostInitiated string `json:"hostInitiated,omitempty"`
}
