-- Marks a push as cancelled, before its task is archived. Begin refuses such a
-- push.
--
-- KEYS[1] record of the push
-- KEYS[2] index of dead pushes
-- KEYS[3] claim of the idempotency key
-- ARGV[1] push id
-- ARGV[2] push, as JSON (used when there is no record yet)
-- ARGV[3] time of the end that the caller has seen, in milliseconds; 0 for none.
--         A push that was run again with asynq's tools has its old end until
--         its attempt begins
-- ARGV[4] seconds that the record lives after the end
--
-- Returns CANCELLED, or the state that forbids it: IN_MEMORY (an attempt is in
-- process), SENT, or an end that another run has written since the caller
-- looked. May be repeated.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local stored = redis.call('GET', KEYS[1])
local record
if stored then
  record = cjson.decode(stored)
else
  record = {push = cjson.decode(ARGV[2])}
end

for _, attempt in ipairs(record.attempts or {}) do
  if attempt.status == 'OK' then return 'SENT' end
end
for _, attempt in ipairs(record.attempts or {}) do
  if attempt.status == 'IN_PROCESS' then return 'IN_MEMORY' end
end
if record['end'] == 'CANCELLED' then return 'CANCELLED' end
if record['end'] and (record.endedAt or 0) ~= tonumber(ARGV[3]) then return record['end'] end

record['end'] = 'CANCELLED'
record.endedAt = now
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - tonumber(ARGV[4]) * 1000)
local claim = redis.call('GET', KEYS[3])
if claim then
  if string.sub(claim, -6) ~= ' ended' then claim = claim .. ' ended' end
  redis.call('SET', KEYS[3], claim, 'EX', ARGV[4])
end
redis.call('SET', KEYS[1], cjson.encode(record), 'EX', ARGV[4])
return 'CANCELLED'
