//go:build cuda || nvrtc

package cuda

// Compiler turns units into device binaries for one architecture, with the cache
// that the worker has. It needs libnvrtc and no GPU.
type Compiler struct{ c *compiler }

// NewCompiler opens libnvrtc. arch is ArchName's.
func NewCompiler(arch string) (*Compiler, error) {
	c, err := newCompiler(arch, nil)
	if err != nil {
		return nil, err
	}
	return &Compiler{c}, nil
}

// Compile gives a unit's binary. It is safe for several goroutines.
func (c *Compiler) Compile(u Unit) ([]byte, error) {
	b, err := c.c.compile(variant{u.Source, u.Defines})
	return b.cubin, err
}

// CompilerVersion is libnvrtc's, such as "13.0".
func (c *Compiler) CompilerVersion() string { return c.c.library.Version() }
