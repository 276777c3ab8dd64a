-- Slows the shared pace after the provider answered 429, unless that is about one push alone.
--
-- KEYS[1] state of the pace (hash, see reserve.lua)
-- KEYS[2] brake: "MILLISECONDS ANSWER", since when and by which answer
-- ARGV[1] milliseconds that the provider asked to wait, 0 if it did not
-- ARGV[2] how many requests the provider has served so far, of all pushes; '' if nobody
--         counts them
-- ARGV[3] the answer, for people
--
-- Returns {milliseconds of brake now in force, 1 if the answer is about that push alone, 1 if
-- the brake was not in force before}. The speed falls to 80 %, at most once a second, and never
-- below 5 %.
--
-- A provider answers 429 when it has too much of all of us, and some when one recipient has
-- too much. The first one holds everybody up. If it was about one recipient, others are served
-- afterwards; if not, nobody is. So for ten minutes after a 429 the next ones are about their
-- pushes alone, until there are ten of them with nobody served in between.
--
-- Fields of the state besides those in reserve.lua: cut_at (when the speed fell last);
-- doubt_until (the end of those ten minutes), in_a_row (429s about one push alone since
-- anybody was served) and served (ARGV[2] then).

local doubt = 600000000 -- microseconds
local brakes_again = 10

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local asked, served, said = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local fields = write_over('HMGET', KEYS[1], 'speed', 'speed_at', 'cut_at', 'doubt_until', 'in_a_row', 'served')
local speed, speed_at, cut_at = tonumber(fields[1]) or 1, tonumber(fields[2]) or 0, tonumber(fields[3]) or 0
local brake = math.max(redis.call('PTTL', KEYS[2]), 0)

if served ~= '' then
  local in_a_row = 0
  if brake == 0 and now < (tonumber(fields[4]) or 0) then
    in_a_row = 1 + (fields[6] == served and (tonumber(fields[5]) or 0) or 0)
  end
  local alone = in_a_row > 0 and in_a_row < brakes_again
  -- From when this push comes again, at the latest: it may wait half as long again.
  local again = now + 1500 * math.max(asked, brake)
  redis.call('HSET', KEYS[1], 'doubt_until', string.format('%.0f', again + doubt),
    'in_a_row', alone and in_a_row or 0, 'served', served)
  redis.call('EXPIRE', KEYS[1], 3600)
  if alone then return {0, 1, 0} end
end

if now - cut_at >= 1000000 or cut_at > now then
  speed = math.max(recovered(speed, speed_at, now) * 0.8, 0.05)
  redis.call('HSET', KEYS[1], 'speed', string.format('%.6f', speed),
    'speed_at', string.format('%.0f', now), 'cut_at', string.format('%.0f', now))
  redis.call('EXPIRE', KEYS[1], 3600)
end

if asked <= brake then return {brake, 0, 0} end
local since = string.format('%.0f', now / 1000)
if brake > 0 then since = string.match(read('GET', KEYS[2]) or '', '^(%d+) ') or since end
redis.call('SET', KEYS[2], since .. ' ' .. said, 'PX', asked)
return {asked, 0, brake == 0 and 1 or 0}
