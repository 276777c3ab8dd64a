-- What all workers know about a service, and every change of it.
--
-- KEYS[1] hash of the breaker
-- ARGV[1] ask, or what became of a permitted call: good, bad, void (never made, or no
--         word about the service), or renew: calls that are still to be reported
-- ARGV[2] name of the call, made once; the same again changes nothing. To renew, the
--         names of one or more, with blanks between them
-- ARGV[3] failures in a row that open it
-- ARGV[4] milliseconds that it stays open
-- ARGV[5] good calls in a row that close it again
-- ARGV[6] milliseconds after which a call is forgotten that has not been reported or renewed
--
-- Returns {answer, milliseconds to wait, state, failures, state before, failures before,
-- generation}.
-- The answers to ask are GO, WAIT (as many calls are under way as may fail) and OPEN; to
-- the others DONE.
--
-- Fields of the hash; times are milliseconds since 1970 on Redis' clock:
--   state       closed, open, half_open
--   failures    in a row
--   successes   in a row, while half open
--   opened      when it was opened last
--   generation  counts the changes of state; a report counts in that of its call only
--   unproven    the calls permitted after the last good one that have not been reported:
--               "TIME:NAME TIME:NAME", by the time when each was permitted or renewed
--   call:NAME   each call that has not been reported: "GENERATION TIME", the same time
--   swept       when those of dead workers were removed last

local key, act, name = KEYS[1], ARGV[1], ARGV[2]
local threshold, open_for = tonumber(ARGV[3]), tonumber(ARGV[4])
local to_close, forget = tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local fields = redis.call('HMGET', key, 'state', 'failures', 'successes', 'opened', 'generation',
  'unproven', 'swept', 'call:' .. name)
local state, failures = fields[1] or 'closed', tonumber(fields[2] or 0)
local successes, opened, generation = tonumber(fields[3] or 0), tonumber(fields[4] or 0), tonumber(fields[5] or 0)
local swept = tonumber(fields[7] or 0)
local state_before, failures_before = state, failures

-- A time that is far ahead is one before the clock has jumped back (failover).
local function past(instant, age) return math.abs(now - instant) >= age end

local unproven = {}
for began, call in string.gmatch(fields[6] or '', '(%-?%d+):(%S+)') do
  if not past(tonumber(began), forget) then
    unproven[#unproven + 1] = {began = tonumber(began), name = call}
  end
end

local function whole(number) return string.format('%.0f', number) end

local permitted = false
if fields[8] then permitted = string.match(fields[8], '^%d+') == whole(generation) end

local function answer(text, wait)
  return {text, wait, state, failures, state_before, failures_before, generation}
end

local function become(new_state)
  state, successes, unproven, generation = new_state, 0, {}, generation + 1
  if new_state == 'open' then opened = now end
  if new_state == 'closed' then failures = 0 end
end

local function store()
  local calls = {}
  for place, call in ipairs(unproven) do calls[place] = whole(call.began) .. ':' .. call.name end
  redis.call('HSET', key, 'state', state, 'failures', whole(failures), 'successes', whole(successes),
    'opened', whole(opened), 'generation', whole(generation), 'unproven', table.concat(calls, ' '))
end

-- Removes what dead workers have left behind.
local function sweep()
  local all = redis.call('HGETALL', key)
  for place = 1, #all, 2 do
    if string.sub(all[place], 1, 5) == 'call:' and past(tonumber(string.match(all[place + 1], ' (.+)$')), forget) then
      redis.call('HDEL', key, all[place])
    end
  end
  redis.call('HSET', key, 'swept', whole(now))
end

if act == 'ask' then
  if permitted then return answer('GO', 0) end
  if state == 'open' then
    if not past(opened, open_for) then return answer('OPEN', opened + open_for - now) end
    become('half_open')
  end
  -- Calls under way may all fail. Those permitted after the last good one are therefore no
  -- more than failures may be, so that a service that has died is called no more often than
  -- that, however many workers there are.
  local most = state == 'half_open' and 1 or math.max(threshold - failures, 1)
  if #unproven >= most then
    return answer('WAIT', math.max(unproven[1].began + forget - now, 1))
  end
  if past(swept, forget) then sweep() end
  unproven[#unproven + 1] = {began = now, name = name}
  redis.call('HSET', key, 'call:' .. name, whole(generation) .. ' ' .. whole(now))
  store()
  return answer('GO', 0)
end

-- What has been forgotten stays so: others may have been permitted in its place.
if act == 'renew' then
  local renewed = {}
  for call in string.gmatch(name, '%S+') do
    local generation_of, began = string.match(redis.call('HGET', key, 'call:' .. call) or '', '^(%d+) (.+)$')
    if began and not past(tonumber(began), forget) then
      redis.call('HSET', key, 'call:' .. call, generation_of .. ' ' .. whole(now))
      renewed[call] = true
    end
  end
  for _, call in ipairs(unproven) do
    if renewed[call.name] then call.began = now end
  end
  table.sort(unproven, function(a, b) return a.began < b.began end)
  if next(renewed) then store() end
  return answer('DONE', 0)
end

redis.call('HDEL', key, 'call:' .. name)
if not permitted then return answer('DONE', 0) end
for place, call in ipairs(unproven) do
  if call.name == name then
    table.remove(unproven, place)
    break
  end
end
if act == 'good' and state == 'half_open' then
  successes = successes + 1
  if successes >= to_close then become('closed') end
elseif act == 'good' then
  failures, unproven = 0, {}
elseif act == 'bad' then
  failures = failures + 1
  if state == 'half_open' or failures >= threshold then become('open') end
end
store()
return answer('DONE', 0)
