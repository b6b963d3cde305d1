-- Generates (or loads) a region of the world and says how many map blocks came from where, how
-- long that took, and when the server has had time to save them.
local from, to = {x = -240, y = -48, z = -240}, {x = 240, y = 48, z = 240}
local seen = {disk = 0, generated = 0, memory = 0, failed = 0}

minetest.register_on_mods_loaded(function()
  minetest.after(0, function()
    local began = minetest.get_us_time()
    minetest.emerge_area(from, to, function(_, action, left)
      if action == minetest.EMERGE_FROM_DISK then
        seen.disk = seen.disk + 1
      elseif action == minetest.EMERGE_GENERATED then
        seen.generated = seen.generated + 1
      elseif action == minetest.EMERGE_FROM_MEMORY then
        seen.memory = seen.memory + 1
      else
        seen.failed = seen.failed + 1
      end
      if left == 0 then
        local seconds = (minetest.get_us_time() - began) / 1e6
        minetest.after(4, function()
          print(("EMERGED disk=%d generated=%d memory=%d failed=%d seconds=%.3f"):format(
            seen.disk, seen.generated, seen.memory, seen.failed, seconds))
        end)
      end
    end)
  end)
end)
