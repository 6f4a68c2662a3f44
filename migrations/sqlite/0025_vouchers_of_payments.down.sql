SELECT 1; -- the columns go with the migrations before
