-- Begins an attempt, or says why there must be none.
--
-- KEYS[1] record of the push
-- KEYS[2] index of dead pushes
-- KEYS[3] brake of the channel
-- KEYS[4] claim of the idempotency key, if ARGV[7] is '1' (record.lua: take_back_claim)
-- ARGV[1] push id
-- ARGV[2] push, as JSON
-- ARGV[3] token of the handler run
-- ARGV[4] milliseconds after which an attempt in process counts as interrupted
-- ARGV[5] maximum number of attempts
-- ARGV[6] seconds that the record lives until the push ends
-- ARGV[7] '1' to begin although the record is at its end (a requeued push)
-- ARGV[8] '1' if a request to the provider is to follow, which the brake forbids
--
-- Returns {answer, attempt number (or milliseconds of brake), 1 if it is the last one allowed, number of
-- the attempt found interrupted or 0, recorded end or '', attempt's number among those
-- that count}. The answers are GO, SENT, CANCELLED,
-- BUSY, ENDED (the record is at its end), SPENT (no attempts are left), BRAKED and
-- SUPERSEDED (the idempotency key stands for another push by now).
-- The same token gets the same answer again.

local stored = read_text(KEYS[1])
local record = decode_record(stored, ARGV[2])
local attempts = record.attempts or {}
record.attempts = attempts

local function budget()
  return record.budget or tonumber(ARGV[5])
end

local function used()
  local count = 0
  for number = (record.budgetFrom or 0) + 1, #attempts do
    local attempt = attempts[number]
    if not attempt.uncounted and not attempt.probe then count = count + 1 end
  end
  return count
end

local function go(interrupted)
  local count = used()
  return {'GO', #attempts, count >= budget() and 1 or 0, interrupted, '', count}
end

local function store()
  store_record(KEYS[1], record_text(ARGV[2], record), ARGV[6])
end

if record['end'] == 'CANCELLED' then return {'CANCELLED', 0, 0, 0, 'CANCELLED', 0} end
for _, attempt in ipairs(attempts) do
  if attempt.status == 'OK' then return {'SENT', 0, 0, 0, 'SENT', 0} end
end

local brake = ARGV[8] == '1' and redis.call('PTTL', KEYS[3]) or 0
if brake > 0 then return {'BRAKED', brake, 0, 0, '', 0} end

for number, attempt in ipairs(attempts) do
  if attempt.token == ARGV[3] then
    if attempt.status == 'IN_PROCESS' and number == #attempts then
      return go(0)
    end
    -- Another run has taken this one for dead.
    return {'BUSY', 0, 0, 0, '', 0}
  end
end

local interrupted = close_interrupted(attempts, tonumber(ARGV[4]))
if not interrupted then return {'BUSY', 0, 0, 0, '', 0} end

local ended = record['end']
if ended and ARGV[7] ~= '1' then return {'ENDED', 0, 0, 0, ended, 0} end
if not ended and used() >= budget() then
  store()
  return {'SPENT', 0, 0, interrupted, '', 0}
end
if ended and not allow_one_more(record, ARGV[1], KEYS[2], KEYS[4], ARGV[6]) then
  return {'SUPERSEDED', 0, 0, 0, ended, 0}
end

attempts[#attempts + 1] = {token = ARGV[3], status = 'IN_PROCESS', startedAt = now}
if stored then
  store()
else
  store_record(KEYS[1], first_attempt(ARGV[2], ARGV[3]) .. milliseconds(now) .. '}]}', ARGV[6])
end
return go(interrupted)
