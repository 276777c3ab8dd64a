-- What the scripts of the records share. It stands before each of them.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- The record under a key, or a new one of the push (JSON).
local function load_record(key, push)
  local stored = redis.call('GET', key)
  if stored then return cjson.decode(stored) end
  return {push = cjson.decode(push)}
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
