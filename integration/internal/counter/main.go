// Command counter increments a JSON counter as Go programs do, for package
// counting: os.ReadFile, os.WriteFile.
//
//	counter PATH INCREMENTS once|retry
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: counter PATH INCREMENTS once|retry")
		os.Exit(2)
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(2)
	}
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	for range n {
		count(os.Args[1], os.Args[3] == "retry")
	}
}

// count increments once, and says of each attempt how it went.
func count(path string, retry bool) {
	for {
		err := increment(path)
		if err == nil {
			fmt.Println("ok")
			return
		}
		fmt.Println(err)
		if !retry {
			return
		}
		time.Sleep(rand.N(20 * time.Millisecond))
	}
}

func increment(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var counter struct {
		N int `json:"n"`
	}
	if err := json.Unmarshal(text, &counter); err != nil {
		return err
	}
	counter.N++
	time.Sleep(time.Millisecond) // what a program does with what it has read
	if text, err = json.Marshal(counter); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
