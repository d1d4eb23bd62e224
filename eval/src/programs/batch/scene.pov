// Spheres of random size and colour above a floor: povray Declare=Spheres=N. Always the same.
#version 3.7;
global_settings { assumed_gamma 1.0 max_trace_level 5 }
#declare R = seed(42);
camera { location <0, 8, -22> look_at <0, 3, 0> angle 45 }
light_source { <30, 60, -40> color rgb 1.2 }
light_source { <-40, 30, -10> color rgb <0.3, 0.3, 0.4> shadowless }
plane { y, 0 pigment { checker color rgb 0.9 color rgb 0.4 } finish { reflection 0.1 } }
#declare I = 0;
#while (I < Spheres)
  sphere {
    <rand(R) * 24 - 12, rand(R) * 12, rand(R) * 24 - 12>, 0.02 + rand(R) * 0.08
    pigment { color rgb <rand(R), rand(R), rand(R)> }
    finish { phong 0.6 reflection 0.1 }
  }
  #declare I = I + 1;
#end
