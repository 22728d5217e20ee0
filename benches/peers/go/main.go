// franz-go as a peer; ../src/child.rs has the protocol.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a broker sends of one partition at a time, unless a client asks for more.
const fetched = 1 << 20

// Whole batches, up to the first that reaches the limit, as fetches of a partition.
func load(path string, limit int) ([][]byte, int, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	var fetches [][]byte
	from, end := 0, 0
	for end < len(file) && end < limit {
		end += 12 + int(binary.BigEndian.Uint32(file[end+8:]))
		if end-from >= fetched {
			fetches, from = append(fetches, file[from:end]), end
		}
	}
	if end > from {
		fetches = append(fetches, file[from:end])
	}
	return fetches, end, nil
}

// Touches every field of every record.
func pass(fetches [][]byte) (string, error) {
	var records, keys, values, headerKeys, headerValues, offsets, timestamps int64
	decompressor := kgo.DefaultDecompressor()
	start := time.Now()
	for _, bytes := range fetches {
		response := kmsg.FetchResponseTopicPartition{RecordBatches: bytes}
		partition, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{}, &response, decompressor, nil)
		if partition.Err != nil {
			return "", partition.Err
		}
		for _, record := range partition.Records {
			records++
			offsets += record.Offset
			timestamps += record.Timestamp.UnixMilli()
			keys += int64(len(record.Key))
			values += int64(len(record.Value))
			for _, header := range record.Headers {
				headerKeys += int64(len(header.Key))
				headerValues += int64(len(header.Value))
			}
		}
	}
	took := time.Since(start).Nanoseconds()
	return fmt.Sprint(took, records, keys, values, headerKeys, headerValues, offsets, timestamps), nil
}

func main() {
	var fetches [][]byte
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		answer, err := "", error(nil)
		switch {
		case len(words) == 3 && words[0] == "load":
			mebibytes, end := 0, 0
			if mebibytes, err = strconv.Atoi(words[2]); err == nil {
				fetches, end, err = load(words[1], mebibytes<<20)
			}
			answer = fmt.Sprint("ok ", end)
		case len(words) == 1 && words[0] == "pass":
			answer, err = pass(fetches)
		default:
			err = fmt.Errorf("not known: %q", words)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(answer)
	}
}
