package statelog

import "context"

// Check is what Ensure looks at, without creating or repairing anything: a *[SettingsError] when the topic's settings
// would lose state.
func (l *Log) Check(ctx context.Context) error {
	t, ok, err := l.describe(ctx)
	if err != nil || !ok {
		return err
	}
	return l.vital(ctx, t)
}

// vital compares the settings without which state would be lost.
func (l *Log) vital(ctx context.Context, t found) error {
	is, err := l.configs(ctx)
	if err != nil {
		return l.errorf("read settings of", err)
	}
	wrong, _ := compare(settingsFor(len(t.Parts[0].Replicas)), is)
	for i, w := range wrong {
		wrong[i].Repair = alterConfigLine(t.address, l.topic, w.Setting, w.Want)
	}
	if n := len(t.Parts); n != Partitions {
		wrong = append(wrong, partitionsWrong(t.address, l.topic, n))
	}
	if len(wrong) > 0 {
		return &SettingsError{Topic: l.topic, Cluster: l.dst.Name(), Wrong: wrong}
	}
	return nil
}
