package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"latchfs/fs"
	"latchfs/fs/face"
)

// mounted is a mount that answers; *face.Mount is one.
type mounted interface {
	// Wait returns when the mount is gone.
	Wait() error
	// Shutdown refuses new sessions, lets running ones finish until ctx ends,
	// and unmounts.
	Shutdown(ctx context.Context) error
	Mountpoint() string
}

// daemon is the life of one mount in this process.
type daemon struct {
	options fs.Options
	mount   func(fs.Options) (mounted, error)
	log     fs.Logger
	signals <-chan os.Signal

	ready  func() error       // tells whoever started us that the mount answers
	reopen func() error       // opens the log file anew; nil: there is none, and SIGHUP ends the mount
	notify func(state string) // tells the service manager (sd_notify(3))

	watchdog time.Duration // how often the service manager wants to hear of us; 0: never
	probe    func(ctx context.Context, mountpoint string) error
}

// newDaemon wires a daemon to the process it runs in. From here on signals
// come to it.
func newDaemon(o fs.Options, log *logSink) *daemon {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// A log line into a closed pipe must not take the mount down.
	signal.Ignore(syscall.SIGPIPE)

	d := &daemon{
		options: o,
		mount: func(o fs.Options) (mounted, error) {
			m, err := face.Start(o)
			if err != nil {
				return nil, err // not a nil *face.Mount in an interface
			}
			addProcessors()
			endAtDeath(m.Mountpoint(), o.Log)
			return m, nil
		},
		log:     o.Log,
		signals: signals,
		ready:   func() error { return nil },
		notify: func(state string) {
			if _, err := systemd.SdNotify(false, state); err != nil {
				o.Log.Warnf("sd_notify %s: %v", state, err)
			}
		},
		probe: probeMount,
	}
	if log.path != "" {
		d.reopen = log.Reopen
	}
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		o.Log.Warnf("watchdog: %v", err)
	}
	d.watchdog = interval
	return d
}

// run mounts, and returns when the mount is gone.
func (d *daemon) run() error {
	m, err := d.mount(d.options)
	if err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- m.Wait() }()

	d.log.Infof("%s is mounted at %s", d.options.Dir, m.Mountpoint())
	if err := d.ready(); err != nil {
		d.log.Errorf("leaving the terminal: %v", err)
	}
	d.notify(systemd.SdNotifyReady)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go d.feedWatchdog(ctx, m.Mountpoint())

	for {
		select {
		case err := <-gone:
			d.notify(systemd.SdNotifyStopping)
			d.log.Infof("%s is unmounted", m.Mountpoint())
			return err
		case sig := <-d.signals:
			if sig == syscall.SIGHUP && d.reopen != nil {
				if err := d.reopen(); err != nil {
					d.log.Errorf("open the log anew: %v", err)
				}
				continue
			}
			return d.shutdown(m, gone, sig)
		}
	}
}

// shutdown ends the mount: running sessions may finish up to the grace, or
// until a second signal says that it is enough.
func (d *daemon) shutdown(m mounted, gone <-chan error, sig os.Signal) error {
	d.notify(systemd.SdNotifyStopping)
	d.log.Infof("%v: shutting down; running sessions have %v", sig, d.options.Grace)

	ctx, cancel := context.WithTimeout(context.Background(), d.options.Grace)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- m.Shutdown(ctx) }()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("shutting down: %w", err)
			}
			err = <-gone
			d.log.Infof("%s is unmounted", m.Mountpoint())
			return err
		case sig := <-d.signals:
			if sig == syscall.SIGHUP {
				continue
			}
			d.log.Warnf("%v again: what is not closed now is rolled back", sig)
			cancel()
		}
	}
}

// feedWatchdog tells the service manager twice in each interval that the mount
// answers, for as long as it does. One question at a time: a mount that hangs is
// not asked again.
func (d *daemon) feedWatchdog(ctx context.Context, mountpoint string) {
	if d.watchdog <= 0 {
		return
	}
	tick := time.NewTicker(d.watchdog / 2)
	defer tick.Stop()
	answer := make(chan error, 1)
	asked := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if asked {
				d.log.Errorf("watchdog: %s does not answer", mountpoint)
				continue
			}
			asked = true
			go func() { answer <- d.probe(ctx, mountpoint) }()
		case err := <-answer:
			asked = false
			if err != nil {
				d.log.Errorf("watchdog: ask %s: %v", mountpoint, err)
				continue
			}
			d.notify(systemd.SdNotifyWatchdog)
		}
	}
}
