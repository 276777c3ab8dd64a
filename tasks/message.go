package tasks

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of asynq's message that pushq sets, as asynq v0.26.0 numbers them
// (internal/proto/asynq.proto); those of value zero are left out.
const (
	messageType        = protowire.Number(1)
	messagePayload     = protowire.Number(2)
	messageID          = protowire.Number(3)
	messageQueue       = protowire.Number(4)
	messageRetry       = protowire.Number(5)
	messageTimeout     = protowire.Number(8)
	messageRetention   = protowire.Number(12)
	messageCompletedAt = protowire.Number(13)
	messageHeaders     = protowire.Number(15)

	// Of an entry of headers, which is a message of its own.
	headerName = protowire.Number(1)
	headerText = protowire.Number(2)
)

// newMessage encodes the task that newTask returns as asynq keeps it in Redis.
func newMessage(channel Channel, push Push, retention Retention) ([]byte, error) {
	payload, err := push.encode()
	if err != nil {
		return nil, err
	}
	taskType, queue := channel.TaskType(), channel.queue(push)
	const tagsAndNumbers = 64
	message := make([]byte, 0, len(taskType)+len(payload)+len(push.ID)+len(queue)+tagsAndNumbers)
	message = appendText(message, messageType, taskType)
	message = appendText(message, messagePayload, payload)
	message = appendText(message, messageID, push.ID)
	message = appendText(message, messageQueue, queue)
	message = appendNumber(message, messageRetry, maxRetry)
	message = appendNumber(message, messageTimeout, int64(taskTimeout/time.Second))
	message = appendNumber(message, messageRetention, int64(retention.Completed/time.Second))
	for _, header := range push.headers() {
		if header.text != "" {
			message = appendText(message, messageHeaders, appendText(appendText(nil, headerName, header.name), headerText, header.text))
		}
	}
	return message, nil
}

func appendText[T string | []byte](message []byte, field protowire.Number, text T) []byte {
	message = protowire.AppendTag(message, field, protowire.BytesType)
	message = protowire.AppendVarint(message, uint64(len(text)))
	return append(message, text...)
}

func appendNumber(message []byte, field protowire.Number, number int64) []byte {
	if number == 0 {
		return message
	}
	message = protowire.AppendTag(message, field, protowire.VarintType)
	return protowire.AppendVarint(message, uint64(number))
}
