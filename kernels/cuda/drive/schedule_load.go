package drive

// loaded adds the steps for one experiment of session.Explain. The product (the matrix product that runs beside calls)
// runs twice. The first time, it runs alone. The second time, its plan is for s.beside.left SMs (0: all SMs), and
// synthetic loads run beside it if s.beside.load is set. Both runs are in one round, because clock rates drift
// within a second.
func (s *schedule) loaded() {
	s.now = &section{calls: s.fold}
	s.sections = append(s.sections, s.now)
	s.productAlone()
	s.align()
	s.now.begin = s.began()
	s.yielding = s.beside.left
	s.now.within = s.marked(s.now.begin)
	s.yielding = 0
	if s.beside.load {
		for i := range s.fold {
			s.add(stepLoad, i)
		}
	}
	s.add(stepJoin, 0)
}
