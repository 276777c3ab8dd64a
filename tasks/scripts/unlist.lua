-- Takes a push whose task is run again out of the index of dead pushes, unless
-- it has ended once more meanwhile.
--
-- KEYS[1] record of the push
-- KEYS[2] index of dead pushes
-- ARGV[1] push id
--
-- Returns how many entries it has removed. May be repeated.

if decode_record(read_text(KEYS[1]))['end'] then return 0 end
return write_over('ZREM', KEYS[2], ARGV[1])
