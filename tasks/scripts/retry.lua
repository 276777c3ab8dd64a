-- Gives a push a fresh budget of attempts and takes back its end, before its
-- task is run again.
--
-- KEYS[1] record of the push
-- KEYS[2] index of dead pushes
-- ARGV[1] push id
-- ARGV[2] time of the end that the caller has seen, in milliseconds; 0 for none
-- ARGV[3] seconds that the record lives until the push ends
--
-- Returns '' if the push may be run, or the state that forbids it: SENT, or an
-- end that another run has written since the caller looked. May be repeated.
-- Without a record there is nothing to take back.

local stored = redis.call('GET', KEYS[1])
if not stored then return '' end
local record = cjson.decode(stored)
local attempts = record.attempts or {}
for _, attempt in ipairs(attempts) do
  if attempt.status == 'OK' then return 'SENT' end
end
if record['end'] and (record.endedAt or 0) ~= tonumber(ARGV[2]) then return record['end'] end

record['end'] = nil
record.endedAt = nil
record.budget = nil
record.budgetFrom = #attempts > 0 and #attempts or nil
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], cjson.encode(record), 'EX', ARGV[3])
return ''
