package batch

// Record is one record with everything that a consumer can see of it. Key, Value and header values are nil for
// Kafka's null, which is not the same as empty.
type Record struct {
	Offset    int64 // source offset
	Timestamp int64 // ms since 1970, -1 for none
	Key       []byte
	Value     []byte
	Headers   []RecordHeader // in their order, with repeats
	Attrs     int8           // attributes of a magic 2 record: no bit has a meaning yet, all are kept
}

// RecordHeader is one header of a record. The key is never null, and need not be UTF-8.
type RecordHeader struct {
	Key   []byte
	Value []byte
}
