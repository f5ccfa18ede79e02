# A Go module is built, changed by gofmt and by a generator, and built again.
# needs: go
# root: the ordinary user has no build cache
# varies: tool
export GOFLAGS=-buildvcs=false GOPROXY=off GOTOOLCHAIN=local GOTELEMETRY=off GOENV=off
go mod init example.org/tool 2> /dev/null
sed -i '/^toolchain/d' go.mod
cat > main.go <<'E'
package main

//go:generate sh -c "sh gen.sh; true"

func main() {
println(text)
}
E
echo 'printf "package main\n\nconst text = \"%s\"\n" "$(cat text)" > text.go' > gen.sh
for i in one two; do
  echo $i > text
  go generate; cat text.go
  gofmt -l . ; gofmt -w main.go; cat main.go
  go build -o tool; ./tool
  sed -i 's/println(text)/println(text, "!")/' main.go
done
go mod edit -go=1.21; cat go.mod | tail -n 1; printf 'package main\n\nconst text = "by hand"\n' > text.go; go vet ./... ; go build -o tool; ./tool
