package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/policy/lockfile"
)

// noteClaims says which of the paths are claim files, and what they stand for.
func noteClaims(cmd *cobra.Command, p *policy.Policy, paths []string) {
	for _, name := range paths {
		rel := rootRelative(name)
		if dir, c := p.ClaimRecord(rel); c != nil {
			fmt.Fprintf(cmd.OutOrStdout(), "%s belongs to the claim %s\n", printable.Line(name), printable.Line(dir))
			continue
		}
		c := p.ClaimFile(rel)
		if c == nil {
			continue
		}
		target, err := c.Target(rel)
		if err != nil {
			fmt.Fprintf(cmd.OutOrStdout(), "%s matches the claim in %s, but stands for nothing: %v\n", printable.Line(name), c.Origin(), err)
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is a claim file (%s): it stands for %s%s (%s)\n",
			printable.Line(name), c.Format, printable.Line(target.String()), claimTerms(c), c.Origin())
	}
}

// claimTerms says when a claim is stale, and what becomes of it then.
func claimTerms(c *lockfile.Convention) string {
	if c.Format == lockfile.Flock {
		return ""
	}
	never := func(seconds fmt.Stringer) string {
		if s := seconds.String(); s != "0s" {
			return s
		}
		return "never"
	}
	return fmt.Sprintf("; ttl %s, foreign-ttl %s, on-stale %s, malformed %s", never(c.TTL), never(c.ForeignTTL), c.OnStale, c.Malformed)
}

// claimJSON is null for what is no claim file.
func claimJSON(p *policy.Policy, rel string) any {
	c := p.ClaimFile(rel)
	if c == nil {
		return nil
	}
	claim := map[string]any{"format": c.Format, "covers": c.Covers, "rule": c.Origin()}
	target, err := c.Target(rel)
	switch {
	case err != nil:
		claim["error"] = err.Error()
	case c.Covers == lockfile.CoversName:
		claim["name"] = target.Name
	default:
		claim["path"] = target.Path
	}
	if c.Format != lockfile.Flock {
		claim["ttl_seconds"], claim["foreign_ttl_seconds"] = c.TTL.Seconds(), c.ForeignTTL.Seconds()
		claim["on_stale"], claim["malformed"] = c.OnStale, c.Malformed
	}
	return claim
}
