package drive

// loaded adds two runs of the product to the schedule. The first run has nothing beside it. The second runs beside
// loads, or with a plan for fewer SMs. Both are in the same round, because clock rates drift within a second.
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

// doneAt returns the share of the product that is done at the time `at`. It interpolates between marks.
func (c productStamps) doneAt(r []uint64, at uint64) float64 {
	before, share := r[c.start], 0.0
	for i, done := range c.share {
		mark := r[c.first+i]
		if at < mark {
			if at <= before {
				return share
			}
			return share + (done-share)*float64(at-before)/float64(mark-before)
		}
		before, share = mark, done
	}
	return 1
}
