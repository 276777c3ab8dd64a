-- Records the outcome of an attempt, the end of a push, or both, and completes the
-- push's task on request.
--
-- KEYS[1] record of the push
-- KEYS[2] index of dead pushes
-- KEYS[3] claim of the idempotency key
-- KEYS[4] those who follow the channel (record.lua: tell)
-- KEYS[5] and on: if the task is to be completed, its keys (complete.lua)
-- ARGV[1] push id
-- ARGV[2] push, as JSON
-- ARGV[3] outcome of the attempt, as JSON; '' for none
-- ARGV[4] token of the attempt
-- ARGV[5] 'withdraw' if the attempt's request was never made, 'sent' if it delivered
-- the push and the outcome has its time, else 'record'
-- ARGV[6] end of the push (SENT, FAILED, GIVEN_UP); '' for none
-- ARGV[7] seconds that the record lives until the push ends
-- ARGV[8] seconds that it lives after SENT
-- ARGV[9] seconds that it lives after any other end
-- ARGV[10] seconds that the claim lives after SENT; after any other end, as the record
-- ARGV[11] the caller's own followers (record.lua: tell)
-- ARGV[12] and on: how to complete the task (complete.lua)
--
-- Returns {end of the push as recorded or '', 1 if the task has been completed}. May
-- be repeated.
-- An outcome is written even if another run has taken the attempt for dead,
-- so a late OK makes the push SENT. A late error ends nothing.

local function finish()
  local stored = read_text(KEYS[1])
  if ARGV[5] == 'sent' and is_first_attempt(stored, ARGV[2], ARGV[4]) then
    local rest = ',"attempts":[' .. ARGV[3] .. '],"end":"SENT","endedAt":' .. milliseconds(now) .. '}'
    local text = record_head(ARGV[2]) .. rest
    write_over('ZREM', KEYS[2], ARGV[1]) -- cancelled and retried before the first attempt
    tell(KEYS[4], ARGV[11], ARGV[1], text, true)
    mark_claim(KEYS[3], ARGV[1], ARGV[10])
    store_record(KEYS[1], text, ARGV[8])
    return 'SENT'
  end

  local record = decode_record(stored, ARGV[2])
  local attempts = record.attempts or {}
  local ending = ARGV[6]

  if ARGV[3] ~= '' then
    local outcome = cjson.decode(ARGV[3])
    local place
    for number, attempt in ipairs(attempts) do
      if attempt.token == ARGV[4] then place = number end
    end
    if not place and ARGV[5] == 'withdraw' then return record['end'] or '' end
    place = place or #attempts + 1
    local before = attempts[place]
    if not before or before.status ~= 'OK' then
      outcome.startedAt = outcome.startedAt or (before and before.startedAt) or now
      attempts[place] = outcome
    end
    if outcome.status ~= 'OK' and place ~= #attempts then ending = '' end
    -- A push that is put back again and again before its request keeps only the
    -- last of the rows that say so.
    if ARGV[5] == 'withdraw' and place - 1 > (record.budgetFrom or 0) and attempts[place - 1].uncounted then
      table.remove(attempts, place - 1)
    end
    -- Of a service that is dead for long, the first of its failed probes and the latest.
    if outcome.probe and place == #attempts then
      local first = place
      while first - 1 > (record.budgetFrom or 0) and attempts[first - 1].probe do first = first - 1 end
      if place - first >= 10 then table.remove(attempts, first + 1) end
    end
    record.attempts = attempts
  end

  -- The first end stays, but for a SENT that comes late.
  local ended
  if ending ~= '' and (not record['end'] or ending == 'SENT' and record['end'] ~= 'SENT') then
    end_record(record, ending, ARGV[1], KEYS[2], ARGV[9])
    ended = true
  end

  local text = record_text(ARGV[2], record)
  if ended or ARGV[3] ~= '' and ARGV[5] ~= 'withdraw' then tell(KEYS[4], ARGV[11], ARGV[1], text, ended) end

  local lifetime = ARGV[7]
  if record['end'] then lifetime = record['end'] == 'SENT' and ARGV[8] or ARGV[9] end
  if ended then
    mark_claim(KEYS[3], ARGV[1], ending == 'SENT' and ARGV[10] or ARGV[9])
  elseif not record['end'] then
    keep_claim(KEYS[3], ARGV[1], lifetime)
  end
  store_record(KEYS[1], text, lifetime)
  return record['end'] or ''
end

local ended = finish()
return {ended, ARGV[12] and complete_task() and 1 or 0}
