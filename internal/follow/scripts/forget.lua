-- Forgets consumers that are gone. Those that hold entries are kept: what a consumer
-- holds is lost with it.
--
-- KEYS[1] stream
-- ARGV[1] group
-- ARGV[2] milliseconds of silence after which a consumer is gone
-- ARGV[3] a consumer that is gone however short its silence is; '' for none
--
-- Returns how many are forgotten.

local forgotten = 0
for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for place = 1, #fields, 2 do consumer[fields[place]] = fields[place + 1] end
  if consumer.pending == 0 and (consumer.idle >= tonumber(ARGV[2]) or consumer.name == ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
    forgotten = forgotten + 1
  end
end
return forgotten
