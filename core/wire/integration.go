package wire

// IntegrationParams are the params of integration.<service>.<operation>.
type IntegrationParams struct {
	Path string   `json:"path,omitempty"`
	Args []string `json:"args,omitempty"`
	// HostInitiated is understood from older clients and means nothing.
	HostInitiated string `json:"hostInitiated,omitempty"`
}
