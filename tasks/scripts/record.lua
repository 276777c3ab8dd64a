-- What the scripts of the records share. It stands before each of them.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- A record is kept as {"push":PUSH,...}. The push stays the text that it was
-- given as: decoding and encoding it each time would be most of the work.
local function record_head(push) return '{"push":' .. push end

-- The record under a key without its push, empty if there is none.
local function load_record(key, push)
  local stored = redis.call('GET', key)
  if not stored then return {} end
  local head = record_head(push)
  local rest = string.sub(stored, #head + 1)
  if string.sub(stored, 1, #head) == head and rest ~= '}' then
    return cjson.decode('{' .. string.sub(rest, 2))
  end
  local record = cjson.decode(stored)
  record.push = nil
  return record
end

local function store_record(key, push, record, seconds)
  local rest = string.sub(cjson.encode(record), 2)
  redis.call('SET', key, record_head(push) .. (rest == '}' and '' or ',') .. rest, 'EX', seconds)
end

-- Ends a record: its time, the index of dead pushes, and the mark on the claim
-- of an idempotency key, which lives as long as dead pushes are kept.
local function end_record(record, ending, id, dead_key, claim_key, dead_seconds)
  record['end'] = ending
  record.endedAt = now
  if ending == 'SENT' then
    redis.call('ZREM', dead_key, id)
  else
    redis.call('ZADD', dead_key, now, id)
    redis.call('ZREMRANGEBYSCORE', dead_key, '-inf', now - tonumber(dead_seconds) * 1000)
  end
  local claim = redis.call('GET', claim_key)
  if claim then
    if string.sub(claim, -6) ~= ' ended' then claim = claim .. ' ended' end
    redis.call('SET', claim_key, claim, 'EX', dead_seconds)
  end
end
